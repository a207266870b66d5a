"""Receipts checked against figures computed by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.control.live_cases import ONE_NODE, START_US, spec_of

from flyball.control.ask.bills import Prices
from flyball.control.ask.receipts import Sampled, peak_of, receipt, suggestion
from flyball.control.jobs.request import cluster_of
from flyball.core.jobs import Job, JobState, Row
from flyball.core.signals import HOUR_US, Signal
from flyball.core.workload import JobClass
from flyball.physics import catalogue
from flyball.physics.power import draw_w

CLUSTER = cluster_of(ONE_NODE, "live")
S = 1_000_000
PRICES = Prices(2.0, Signal.flat(0.5), "EUR", Signal.flat(400.0))
DONE = Job(
    7, spec_of(cpus=4), START_US, JobState.COMPLETED, 1,
    started_us=START_US + 100 * S, first_start_us=START_US + 100 * S,
    end_us=START_US + 1000 * S, service_us=3600.0 * S,
    values={"cpu_s": 1350.0, "max_rss_mib": 1000, "peak_mib": 1000, "peak_by": "process"},
)  # fmt: skip


def bill(job: Job, prices: Prices = PRICES, now_us: int = START_US + 5000 * S) -> dict[str, Any]:
    return receipt(job, CLUSTER, prices, now_us)


def test_by_hand_modelled() -> None:
    watts = draw_w(catalogue.get("CPU1"), JobClass.COMPUTE_INTENSIVE)
    costs = bill(DONE)
    assert (costs["id"], costs["state"], costs["attempts"]) == (7, "COMPLETED", 1)
    assert (costs["run_s"], costs["wait_s"], costs["device_hours"]) == (900.0, 100.0, 1.0)
    assert costs["energy_source"] == "modelled"
    assert costs["energy_j"] == pytest.approx(3600 * watts)
    kwh = watts / 1000
    assert costs["cost"] == pytest.approx(2.0 + 0.5 * kwh)
    assert costs["carbon_g"] == pytest.approx(400 * kwh)
    assert (costs["currency"], costs["cpu_s"], costs["max_rss_mib"]) == ("EUR", 1350.0, 1000)


def test_by_hand_measured() -> None:
    costs = bill(replace(DONE, values={"energy_j": 7.2e6}))
    assert (costs["energy_j"], costs["energy_source"]) == (7.2e6, "measured")
    assert costs["cost"] == 2.0 + 0.5 * 2
    assert costs["carbon_g"] == 800.0
    assert costs["cpu_s"] is None


def test_a_stated_class_draws_what_that_class_draws() -> None:
    idle = replace(DONE, spec=spec_of(cpus=4, kind="latency-sensitive"))
    watts = draw_w(catalogue.get("CPU1"), JobClass.LATENCY_SENSITIVE)
    assert bill(idle)["energy_j"] == pytest.approx(3600 * watts)


def test_without_prices_nothing_costs() -> None:
    costs = bill(DONE, Prices())
    assert (costs["cost"], costs["carbon_g"], costs["currency"]) == (0.0, 0.0, "USD")


def test_what_runs_has_used_something_already() -> None:
    job = replace(
        DONE, state=JobState.RUNNING, rows=(Row(0, 15),), end_us=0, service_us=0.0, values={},
        since_us=START_US + 99 * S,
    )  # fmt: skip
    costs = bill(job, now_us=START_US + 1000 * S)
    assert (costs["run_s"], costs["device_hours"]) == (900.0, 1.0)
    assert costs["energy_j"] > 0
    fresh = replace(job, started_us=0, first_start_us=0)
    costs = bill(fresh, now_us=START_US + 99 * S)
    assert (costs["run_s"], costs["wait_s"], costs["device_hours"]) == (0.0, 99.0, 0.0)


def test_what_waits_has_only_waited() -> None:
    job = Job(1, spec_of(), START_US)
    costs = bill(job, now_us=START_US + 60 * S)
    assert (costs["run_s"], costs["wait_s"], costs["energy_j"]) == (0.0, 60.0, 0.0)
    cancelled = replace(job, state=JobState.CANCELLED, end_us=START_US + 30 * S)
    assert bill(cancelled)["wait_s"] == 30.0


def advice(job: Job, run_s: float, sampled_mib: float | None = None) -> dict[str, Any]:
    sampled = Sampled(sampled_mib or 0.0, 5 if sampled_mib else 0)
    return suggestion(job, run_s, peak_of(job, sampled))


def test_suggestions() -> None:
    advised = advice(DONE, 900.0)
    assert advised == {
        "cpus": 2,  # 1350 / 900 = 1.5 cores
        "memory_mib": 1250,
        "limit_s": 1140,  # 1125 s in whole minutes
        "text": "next time: -c 2 (used 1.5 of 4 cores) --mem 1250M -t 19",
    }
    tiny = advice(replace(DONE, values={"peak_mib": 3, "peak_by": "process"}), 0.5)
    assert tiny == {"memory_mib": 64, "limit_s": 60, "text": "next time: --mem 64M -t 1"}
    busy = advice(replace(DONE, values={"cpu_s": 9999.0}), 900.0)
    assert (busy["cpus"], busy["text"]) == (4, "next time: -t 19")


def test_memory_is_suggested_for_all_processes_together() -> None:
    """A limit counts the sum: the largest of four workers would have the next run killed."""
    four = {"max_rss_mib": 1024.0, "peak_mib": 4100.0, "peak_by": "looks"}
    assert advice(replace(DONE, values=four), 900.0)["memory_mib"] == 5125
    unknown = replace(DONE, values={"max_rss_mib": 1024.0})
    advised = advice(unknown, 900.0)
    assert "memory_mib" not in advised
    assert advised["text"] == (
        "next time: -t 19; no --mem: the peak of all its processes together is not known"
    )
    assert advice(unknown, 900.0, sampled_mib=4000.0)["memory_mib"] == 5000
    assert advice(unknown, 900.0, sampled_mib=10.0)["memory_mib"] == 1280, "one had more than that"


def test_a_limit_that_was_kept_is_enough() -> None:
    """Cached files fill a control group up to its limit."""
    full = {"peak_mib": 2048.0, "peak_by": "group"}
    kept = replace(DONE, spec=spec_of(cpus=4, memory_mib=2048), values=full)
    assert advice(kept, 900.0)["memory_mib"] == 2048


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED, JobState.RUNNING])
def test_no_suggestion_for_a_job_that_did_not_complete(state: JobState) -> None:
    assert list(advice(replace(DONE, state=state), 900.0)) == ["text"]


def stepped(*steps: tuple[int, float]) -> Signal:
    """Return a signal of (second of the case, value) steps."""
    times = np.array([START_US + at * S for at, _ in steps], np.int64)
    values = np.array([value for _, value in steps])
    return Signal("case", times, values, int(times[-1]) + HOUR_US, dated=True)


def test_energy_is_priced_over_the_attempts_that_ran() -> None:
    # Two attempts, 100-400 s on one core and 600-900 s on two; the price changes at 300 and 700 s.
    spans = [
        [START_US + 100 * S, START_US + 400 * S, [[0, 1]], 1.0],
        [START_US + 600 * S, START_US + 900 * S, [[0, 3]], 1.0],
    ]
    job = replace(DONE, values={"spans": spans, "active_s": 600.0, "energy_j": 9e6})
    price = stepped((0, 0.1), (300, 0.4), (700, 0.9))
    costs = bill(job, Prices(0.0, price, "EUR", Signal.flat(100.0)))
    # 3 of 9 MJ in the first attempt: two thirds of it at 0.1; 6 MJ in the second: a third at 0.4.
    expected = (2 * 0.1 + 1 * 0.4 + 2 * 0.4 + 4 * 0.9) / 3.6
    assert costs["cost"] == costs["energy_cost"] == pytest.approx(expected)
    assert costs["price_per_kwh"] == pytest.approx(expected / 2.5)
    assert costs["carbon_g"] == pytest.approx(250.0)
    assert costs["energy_cost_source"] == costs["carbon_source"] == "measured"
    assert "case" in costs["price_signal"]


def test_an_old_job_without_attempts_on_record_is_priced_from_start_to_end() -> None:
    price = stepped((0, 0.1), (550, 0.3))
    costs = bill(replace(DONE, values={"energy_j": 3.6e6}), Prices(0.0, price))
    assert costs["cost"] == pytest.approx(0.2)
    waiting = replace(DONE, state=JobState.PENDING, first_start_us=0, started_us=0, service_us=0.0)
    assert bill(waiting, Prices(0.0, price))["cost"] == 0.0


def test_present_values() -> None:
    prices = Prices(0.0, stepped((0, 0.1), (550, 0.3)), "EUR", Signal.flat(250.0))
    now = prices.now(START_US + 600 * S)
    assert (now["price_per_kwh"], now["currency"], now["carbon_g_per_kwh"]) == (0.3, "EUR", 250.0)
    assert Prices().now(START_US) == {}
