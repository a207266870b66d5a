"""Services request by request: against closed forms, by hand, and against the analytic queue."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flyball.core.results import Floats
from flyball.physics.serving import TABLE, USUAL, Lengths, Replica, queue_of, steady
from flyball.twin.services import TICK_S, ReplicaFleet, Served, Service
from flyball.twin.traffic import Traffic

ONE = Replica("one", 2, (1.0, 0.0), (0.0, 0.0), (100.0, 0.0, 1.0), 1, 30.0)
"""One request at a time, a second per token."""
FINE_S = 1.0 / 128.0


def traffic(rate: float, lengths: Lengths, steps: int = 200) -> Traffic:
    return Traffic(600.0, np.full(steps, rate), np.ones(steps), lengths)


def simulate(
    replica: Replica,
    traffic: Traffic,
    timeline: list[tuple[float, int]],
    seed: int,
    target_s: float = USUAL.wait_s,
    tick_s: float = TICK_S,
) -> Served:
    """Run a whole service; `timeline` is (seconds, replicas), the first ready at once."""
    service = Service(replica, traffic, timeline[0][1], seed, target_s, tick_s)
    for time_s, count in timeline[1:]:
        service.advance(time_s)
        service.order(count)
    service.advance(traffic.span_s)
    return service.served()


def answers(output: Floats) -> Lengths:
    return Lengths(np.zeros(len(output)), output / output.mean())


def log_normal(variation: float) -> Floats:
    from scipy.stats import norm

    spread = math.sqrt(math.log1p(variation**2))
    drawn: Floats = np.exp(spread * norm.ppf((np.arange(TABLE) + 0.5) / TABLE))
    return drawn


def p95_s(replicas: int, use: float, lengths: Lengths) -> tuple[float, float]:
    """Return the 95th percentile of the wait: by the formula, and simulated."""
    queue = queue_of(ONE, lengths)
    rate = use * replicas * queue.each_rps
    low, high = 0.0, 100.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if queue.beyond(rate, replicas, middle) > 0.05 else (low, middle)
    served = simulate(
        ONE, traffic(rate, lengths, 2000 // replicas), [(0.0, replicas)], 1, 15.0, FINE_S
    )
    return low, served.wait_s(0.95)


def test_a_single_server_waits_as_the_closed_form_says() -> None:
    # M/D/1 at 80 %: mean wait 0.8 / (2 x 0.2) = 2 services.
    served = simulate(ONE, traffic(0.8, steady(0, 1), 1200), [(0.0, 1)], 3, 15.0, FINE_S)
    ticks = np.arange(len(served.waits)) + 0.5 * (np.arange(len(served.waits)) > 0)
    mean_s = float((served.waits * ticks).sum() / served.waits.sum()) * FINE_S
    assert served.requests == pytest.approx(0.8 * 720_000, rel=0.01)
    assert mean_s == pytest.approx(2.0, rel=0.04)
    assert served.waits[0] / served.waits.sum() == pytest.approx(0.2, rel=0.03)


@pytest.mark.parametrize(("replicas", "use"), [(1, 0.8), (4, 0.7), (4, 0.9)])
def test_the_formula_is_near_where_services_vary_little(replicas: int, use: float) -> None:
    predicted, simulated = p95_s(replicas, use, answers(log_normal(0.25)))
    assert predicted == pytest.approx(simulated, rel=0.10)


def test_the_formula_is_off_where_services_vary_much() -> None:
    """At a variation of 1.5 two services with the same figures wait differently."""
    rare = np.where(np.arange(TABLE) < 0.95 * TABLE, 0.6558, 7.5382)  # 5 % are long
    predicted, simulated = p95_s(16, 0.75, answers(rare))
    assert queue_of(ONE, answers(rare)).service_scv == pytest.approx(2.25, rel=0.01)
    assert predicted / simulated - 1 > 0.25


def test_batches_answer_what_the_formula_says() -> None:
    replica = Replica("r", 1, (0.01, 0.002), (0.02, 0.001), (100.0, 60.0, 20.0), 64, 0.0)
    rate = 0.7 * replica.throughput_rps(50, 40)
    served = simulate(replica, traffic(4 * rate, steady(50, 40), 60), [(0.0, 4)], 1)
    batch = replica.batch_at(rate, 50, 40)
    watts = served.energy_kwh * 3.6e6 / (60 * 600 * 4)
    assert watts == pytest.approx(replica.power_w(batch), rel=0.02)
    assert served.within == 1.0
    over = simulate(
        replica, traffic(1.3 * 4 * replica.throughput_rps(50, 40), steady(50, 40), 6), [(0.0, 4)], 1
    )
    started = int(over.waits.sum())
    assert started / 3600 == pytest.approx(4 * replica.throughput_rps(50, 40), rel=0.03)
    assert over.within < 0.2


def test_a_replica_serves_only_after_its_start_up() -> None:
    # No request is served before 60 + 30 s; then two replicas catch up with one arrival a second.
    late = simulate(ONE, traffic(1.0, steady(0, 1), 1), [(0.0, 0), (60.0, 2)], 2, 15.0)
    assert late.wait_s(1.0) == pytest.approx(90.0, abs=3.0)
    assert late.device_h == pytest.approx(2 * 2 * 540 / 3600)
    assert late.energy_kwh == pytest.approx(2 * 100 * 540 / 3.6e6, rel=0.01)


def test_without_replicas_no_request_is_within() -> None:
    none = simulate(ONE, traffic(50.0, steady(0, 1), 3), [(0.0, 0)], 2)
    assert none.within == 0.0
    assert none.requests == pytest.approx(90_000, rel=0.02)
    assert none.device_h == none.energy_kwh == 0.0


def test_the_fleet_stops_starting_replicas_first() -> None:
    fleet = ReplicaFleet(3, 60.0)
    fleet.order(0.0, 8, 5.0)
    fleet.pass_time(0.0, 10.0)
    fleet.order(10.0, 4, 5.0)
    assert (fleet.ready, fleet.ordered, fleet.paid_s) == (3, 4, 80.0)
    fleet.pass_time(10.0, 60.0)
    assert (fleet.ready, fleet.ordered) == (4, 4)
    fleet.order(60.0, 2, 5.0)
    assert (fleet.ready, fleet.ordered) == (2, 2)
    assert fleet.paid_s == 80.0 + 4 * 50.0 + 2 * 5.0
    assert fleet.idle_s == 5 * 10.0 + 50.0 + 2 * 5.0


def test_the_same_requests_come_whatever_the_replicas() -> None:
    flow = traffic(3.0, answers(log_normal(1.0)), 4)
    few, many = Service(ONE, flow, 2, 5), Service(ONE, flow, 9, 5)
    for minute in range(1, 40):
        few.advance(60.0 * minute)
        many.advance(60.0 * minute)
        assert few.counts[0] == many.counts[0]
    assert few.counts[1] < many.counts[1]
    assert (
        simulate(ONE, flow, [(0, 4)], 5).waits.tolist()
        == simulate(ONE, flow, [(0, 4)], 5).waits.tolist()
    )


def test_rounds_change_nothing() -> None:
    flow = traffic(3.0, answers(log_normal(1.0)), 4)
    at_once, parts = Service(ONE, flow, 4, 5), Service(ONE, flow, 4, 5)
    at_once.advance(2400.0)
    for end in range(10, 2401, 10):
        parts.advance(float(end))
    assert at_once.served().waits.tolist() == parts.served().waits.tolist()


def test_bursts_have_the_dispersion_that_is_asked_for() -> None:
    count = 300
    flow = Traffic(600.0, np.full(count, 40.0), np.full(count, 30.0), steady(0, 1), clump=4)
    service = Service(ONE, flow, 0, 7)
    seen = [0]
    for minute in range(1, 10 * count + 1):
        service.advance(60.0 * minute)
        seen.append(service.counts[0])
    minutes = np.diff(seen).astype(float)
    assert minutes.mean() == pytest.approx(2400.0, rel=0.01)
    # What a step brings is fixed, so a tenth of it varies by nine tenths of the extra.
    assert minutes.var() / minutes.mean() == pytest.approx(4 + 0.9 * 26, rel=0.12)
    assert (minutes % 4 == 0).all()


def test_rates_go_in_lines_or_in_steps() -> None:
    rates, calm = np.array([10.0, 20.0]), np.ones(2)
    lines = Traffic(600.0, rates, calm, steady(0, 1)).block_rates(1)
    steps = Traffic(600.0, rates, calm, steady(0, 1), steps=True).block_rates(1)
    assert lines[0] == 10.0
    assert lines[60] == pytest.approx(15.0, abs=0.2)
    assert steps[59] == 10.0
    assert steps[60] == 20.0


@pytest.mark.nojit
def test_one_server_does_what_the_recursion_says() -> None:
    """A wait is the wait before, plus a service, less the time between the two arrivals."""
    served = simulate(ONE, traffic(0.8, steady(0, 1), 1), [(0.0, 1)], 4, 3.0, FINE_S)
    arrivals_s = np.cumsum(np.random.default_rng((4, 1)).standard_exponential(2000)) / 0.8
    arrivals_s = arrivals_s[arrivals_s < 600.0]
    waits = [0.0]
    for between_s in np.diff(arrivals_s):
        waits.append(max(0.0, waits[-1] + 1.0 - between_s))
    begun = [wait for wait, at in zip(waits, arrivals_s, strict=True) if at + wait < 600.0]
    assert served.requests == len(waits)
    assert served.waits.sum() == pytest.approx(len(begun), abs=1)
    ticks = np.repeat(np.arange(len(served.waits)), served.waits)
    assert ticks.mean() * FINE_S == pytest.approx(np.mean(begun), rel=0.03)
    assert served.wait_s(0.9) == pytest.approx(np.quantile(begun, 0.9), abs=0.1)
    late = sum(wait > 3.0 for wait in begun) + len(waits) - len(begun)
    assert round((1.0 - served.within) * len(waits)) == pytest.approx(late, abs=4)
