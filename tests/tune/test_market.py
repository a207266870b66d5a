"""The compiled market against the plain rule, the linear programme, and hand-worked cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from tests.tune.market_plain import plain_round
from tests.tune.plan_drafts import MIXED, NO_PLAN, EmptyPlan, jobs, twin

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Reason, Status
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.state import State
from flyball.physics.compile import entry
from flyball.tune.elastic import Elastic
from flyball.tune.market.bench import STEP_UP, Bench, bench_for
from flyball.tune.market.sorting import threshold
from flyball.twin.tuning import Tuning

SHORT_FIRST = Elastic(completion=1.0, eta=0.1, energy=0.0, patience_s=1e9, stretch=0.0)


def after_round(state: State, tuner: Elastic) -> Bench:
    """What the round of a tuner left on its bench."""
    tuner.adjust(state, NO_OUTLOOK, NO_PLAN)
    return bench_for(state, 0)


@st.composite
def states(draw: st.DrawFn) -> State:
    """Some jobs on a small mixed cluster, pending and running, rigid and elastic."""
    sizes = draw(st.lists(st.integers(1, 8), min_size=1, max_size=14))
    most = draw(st.lists(st.sampled_from([-1, 0]), min_size=len(sizes), max_size=len(sizes)))
    workload = jobs(sizes, most=np.array(most))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    workload.duration_us[:] *= rng.lognormal(-1.0, 1.0, len(sizes))
    workload.submit_us[1:] += np.sort(rng.integers(0, 1800, len(sizes) - 1)) * 1_000_000
    effects = Effects(speed_error=draw(st.sampled_from([0.0, 0.3])), estimate_sigma=0.5)
    tuning = Tuning((Elastic(),), EmptyPlan(), 300.0, False)
    until_s = draw(st.floats(10.0, 3000.0))
    return twin(workload, MIXED, until_s, effects=effects, tuning=tuning).state


TUNERS = st.builds(
    Elastic,
    eta=st.sampled_from([0.0, 0.3, 0.7]),
    energy=st.sampled_from([0.0, 0.4]),
    completion=st.sampled_from([0.0, 0.5, 1.0]),
    gap_s=st.sampled_from([0.0, 600.0]),
    margin=st.sampled_from([0.5, 2.0]),
    long=st.sampled_from([0.0, 3.0]),
    changes=st.sampled_from([1.0, 48.0]),
)
RANDOM = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_round(state: State, tuner: Elastic) -> None:
    """Check that a compiled round has the index and the prices of the plain one."""
    bench = after_round(state, tuner)
    bidders, prices = plain_round(state, tuner)
    compiled = bench.bidders[: int(bench.totals[0].bidders)]
    assert compiled["job"].tolist() == [bidder.job for bidder in bidders]
    assert compiled["index"] == pytest.approx([bidder.index for bidder in bidders], rel=1e-9)
    assert compiled["stop"] == pytest.approx([bidder.stop for bidder in bidders], rel=1e-9)
    assert bench.pools["price"] == pytest.approx(prices, rel=1e-6, abs=1e-12)


@RANDOM
@given(states(), TUNERS)
def test_compiled_is_plain(state: State, tuner: Elastic) -> None:
    check_round(state, tuner)


@pytest.mark.soak
@settings(parent=RANDOM, max_examples=2000)
@given(states(), TUNERS)
def test_compiled_is_plain_for_long(state: State, tuner: Elastic) -> None:
    check_round(state, tuner)


@RANDOM
@given(states(), TUNERS)
def test_prices_are_nearly_those_of_the_linear_programme(state: State, tuner: Elastic) -> None:
    """The bound that prices give on all worth is least at the programme's duals."""
    bench = after_round(state, tuner)
    bidders = [bidder for bidder in plain_round(state, tuner)[0] if not bidder.locked]
    prices, supply = bench.pools["price"], bench.pools["supply"]
    columns = [(at, o, w - b.stop) for at, b in enumerate(bidders) for o, w in b.worth.items()]  # type: ignore[union-attr]
    if not columns:
        return
    matrix = np.zeros((len(bidders) + len(prices), len(columns)))
    for column, (at, (pool, count), _) in enumerate(columns):
        matrix[at, column], matrix[len(bidders) + pool, column] = 1.0, count
    limits = np.append(np.ones(len(bidders)), supply)
    best = -linprog([-worth for *_, worth in columns], A_ub=matrix, b_ub=limits).fun
    bound = float((prices * supply).sum())
    for at in range(len(bidders)):
        surplus = [w - prices[o[0]] * o[1] for job, o, w in columns if job == at]
        bound += max(0.0, *surplus)
    assert best * (1 - 1e-9) - 1e-12 <= bound <= 1.25 * best + 1e-12


def one_pool(devices: int = 8) -> Cluster:
    return Cluster("one", (NodeGroup("t4", 1, "T4", devices),))


@pytest.mark.parametrize("tuner", [SHORT_FIRST, Elastic()])
def test_a_grown_job_makes_way_for_short_ones(tuner: Elastic) -> None:
    # A long job has grown over the whole node; short ones arrive later.
    workload = jobs([2, 1, 1, 1], model=0)
    workload.duration_us[0] *= 20
    workload.duration_us[1:] /= 40
    workload.submit_us[1:] = 1_200_000_000
    tuning = Tuning((tuner,), EmptyPlan(), 60.0, False)
    alone = twin(workload, one_pool(), 1100.0, tuning=tuning)
    assert int(alone.state.runs.devices[0]) == 8
    crowded = twin(workload, one_pool(), 2400.0, tuning=tuning).state.runs
    assert crowded.preemptions[0] >= 1
    assert (crowded.status[1:] == Status.DONE).all(), "nobody waits for the long one"


def test_a_running_job_does_not_make_way_where_that_does_not_pay() -> None:
    workload = jobs([8, 1], model=0)
    workload.submit_us[1] = 1_200_000_000
    costly = Effects(restart_s=(7200.0, 7200.0, 7200.0))
    tuning = Tuning((SHORT_FIRST,), EmptyPlan(), 60.0, False)
    ran = twin(workload, one_pool(), 1500.0, effects=costly, tuning=tuning)
    assert ran.state.runs.preemptions[0] == 0
    assert ran.state.runs.status[1] == Status.PENDING


def test_a_gang_that_waited_many_times_its_share_comes_first() -> None:
    # A steady stream of short jobs keeps a rigid gang of all devices out: none of them is worth
    # displacing at this margin.
    size = 60
    workload = jobs([1] + [1] * size + [8], model=0, most=np.array([-1] * (size + 1) + [0]))
    workload.duration_us[:-1] /= 8
    workload.duration_us[-1] /= 20
    workload.submit_us[:] = np.append(np.arange(size + 1) * 60_000_000, 0)
    order = np.argsort(workload.submit_us, kind="stable")
    workload, gang = workload.take(order), int(np.flatnonzero(order == size + 1)[0])
    starts_us = []
    for stretch in (0.0, 0.02):
        tuner = replace(SHORT_FIRST, stretch=stretch, margin=50.0)
        tuning = Tuning((tuner,), EmptyPlan(), 60.0, False)
        runs = twin(workload, one_pool(), 3600.0, tuning=tuning).state.runs
        starts_us.append(int(runs.first_start_us[gang]))
    assert starts_us[0] < 0 < starts_us[1]


def test_a_job_set_aside_says_so() -> None:
    workload = jobs([8, 8], model=0, most=0)
    workload.duration_us[0] *= 20
    workload.duration_us[1] /= 40
    workload.submit_us[1] = 1_200_000_000
    notes: list[int] = []
    tuning = Tuning(
        (SHORT_FIRST,), EmptyPlan(), 60.0, False,
        note=lambda _, plan: notes.extend(plan["reason"].tolist()),
    )  # fmt: skip
    ran = twin(workload, one_pool(), 1300.0, tuning=tuning)
    assert int(Reason.OUTBID) in notes and ran.state.runs.preemptions[0] == 1


def test_completion_is_a_part_of_one() -> None:
    with pytest.raises(BadInput, match=r"completion=1\.5"):
        Elastic(completion=1.5)


def test_a_job_is_not_changed_more_often_than_the_bound() -> None:
    # A long job makes way for each of many short gangs, until it has done so three times.
    workload = jobs([8] * 12, model=0, most=0)
    workload.duration_us[0] *= 60
    workload.duration_us[1:] /= 40
    workload.submit_us[1:] = np.arange(1, 12) * 1_800_000_000
    changes = []
    for most in (3, 48):
        tuning = Tuning((Elastic(changes=most, patience_s=1e6),), EmptyPlan(), 60.0, False)
        runs = twin(workload, one_pool(), 40_000.0, tuning=tuning).state.runs
        changes.append(int(runs.preemptions[0]))
    assert changes[0] == 3 < changes[1]


@pytest.mark.parametrize("completion", [0.0, 0.5, 1.0])
def test_a_price_on_watts_lets_no_job_wait_beside_free_devices(completion: float) -> None:
    # The long job delays nobody, so its work counts least: it still runs, on fewer devices.
    workload = jobs([4] * 8)
    workload.duration_us[0] *= 40
    sizes = []
    for energy in (0.0, 3.0):
        tuner = Elastic(completion=completion, energy=energy, eta=0.0)
        tuning = Tuning((tuner,), EmptyPlan(), 60.0, False)
        cluster = Cluster("wide", (NodeGroup("t4", 32, "T4", 4),))
        sizes.append(twin(workload, cluster, 61.0, tuning=tuning).state.runs.devices)
    assert (sizes[1] > 0).all() and sizes[1].sum() < sizes[0].sum()


@entry
def price_of(steps: Any, capacity: float) -> float:
    """Call the compiled selection of a price."""
    return float(threshold(steps, len(steps), capacity))


@pytest.mark.parametrize(("last", "price"), [(0.1, 0.0), (0.101, 1.0)])
def test_steps_that_fill_a_capacity_fit_whatever_rounding_adds(last: float, price: float) -> None:
    # 0.3 - 0.1 - 0.1 - 0.1 is below 0 in floating point.
    steps = np.zeros(3, STEP_UP)
    steps["slope"], steps["devices"] = (3.0, 2.0, 1.0), (0.1, 0.1, last)
    assert price_of(steps, 0.3) == price
