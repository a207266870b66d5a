"""Sums over attempts: without the waits between them, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.control.live_cases import ONE_NODE, START_US, about, intended, submitted

from flyball.control.ask.bills import Prices
from flyball.control.ask.receipts import receipt
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import cluster_of
from flyball.control.jobs.usage import MOST_SPANS, Span, spans_of
from flyball.core.events import Event
from flyball.core.jobs import Job, JobState, Row

S = 1_000_000
NOW = START_US + 10_000 * S


def attempt(number: int, at_s: int, run_s: int, **values: Any) -> list[Event]:
    """An attempt with this start and end, which is then preempted."""
    began, over = START_US + at_s * S, START_US + (at_s + run_s) * S
    return [
        intended(1, began, number, mask=3),
        about("started", 1, began, number, began_us=began),
        about("requeued", 1, over, number, over_us=over, why="preempt", values=values),
    ]


def last(number: int, at_s: int, run_s: int, **values: Any) -> list[Event]:
    *begin, _requeued = attempt(number, at_s, run_s)
    over = START_US + (at_s + run_s) * S
    end = about("ended", 1, over, number, over_us=over, state="COMPLETED", values=values)
    return [*begin, end]


def folded(*events: Event) -> Job:
    return LiveState().fold([submitted(1, cpus=4), *events])[1]


def bill(job: Job, now_us: int = NOW) -> dict[str, Any]:
    return receipt(job, cluster_of(ONE_NODE, "live"), Prices(), now_us)


def test_waits_between_attempts_are_not_run_time() -> None:
    """Preempted for 1000 s after 600 s: 900 s of work with three cores busy."""
    first = {"cpu_s": 1800.0, "max_rss_mib": 700.0, "peak_mib": 900.0, "peak_by": "looks"}
    second = {"cpu_s": 900.0, "max_rss_mib": 500.0, "peak_mib": 600.0, "peak_by": "looks"}
    job = folded(*attempt(1, 0, 600, **first), *last(2, 1600, 300, **second))
    receipt_ = bill(job)
    assert (receipt_["run_s"], receipt_["cpu_s"], receipt_["attempts"]) == (900.0, 2700.0, 2)
    assert (receipt_["max_rss_mib"], receipt_["peak_mib"]) == (700.0, 900.0)
    assert receipt_["suggestion"]["cpus"] == 3
    assert receipt_["suggestion"]["limit_s"] == 1140
    assert receipt_["device_hours"] == pytest.approx(2 * 900 / 3600)


def test_while_it_waits_again_and_while_it_runs_again() -> None:
    job = folded(*attempt(1, 0, 600, cpu_s=1.0))
    assert (job.state, bill(job)["run_s"]) == (JobState.PENDING, 600.0)
    began = START_US + 1600 * S
    again = folded(*attempt(1, 0, 600), *attempt(2, 1600, 1)[:2])
    assert bill(again, began + 50 * S)["run_s"] == 650.0
    assert spans_of(again, began + 50 * S)[1] == Span(began, began + 50 * S, (Row(0, 3),), None)


def test_the_time_of_a_lost_attempt_counts_but_not_its_use() -> None:
    lost = about("requeued", 1, over_us=START_US + 600 * S, why="lost")
    job = folded(*attempt(1, 0, 600)[:2], lost, *last(2, 700, 300, cpu_s=900.0))
    receipt_ = bill(job)
    assert (receipt_["run_s"], receipt_["cpu_s"]) == (900.0, 900.0)
    assert receipt_["suggestion"]["cpus"] == 3, "three cores in the attempt that was counted"


def test_an_attempt_that_never_began_used_nothing() -> None:
    void = about("requeued", 1, over_us=START_US + 600 * S, why="void")
    job = folded(intended(1), void, *last(2, 700, 300, cpu_s=3.0))
    assert (bill(job)["run_s"], bill(job)["cpu_s"]) == (300.0, 3.0)


def test_the_last_attempt_decides_whether_the_peak_is_known() -> None:
    end_values = {"max_rss_mib": 5.0, "peak_mib": 5.0, "peak_by": "process"}
    job = folded(*attempt(1, 0, 10, **end_values), *last(2, 20, 10, max_rss_mib=9.0))
    receipt_ = bill(job)
    assert (receipt_["peak_mib"], receipt_["peak_by"], receipt_["max_rss_mib"]) == (
        9.0,
        "at_least",
        9.0,
    )
    end_values |= {"peak_mib": 40.0}
    job = folded(*attempt(1, 0, 10, **end_values), *last(2, 20, 10, max_rss_mib=9.0))
    receipt_ = bill(job)
    assert (receipt_["peak_mib"], receipt_["peak_by"]) == (40.0, "at_least"), "it was shown once"


def test_an_attempt_of_unknown_peak_keeps_the_peak_a_lower_bound() -> None:
    end_values = {"max_rss_mib": 5.0, "peak_mib": 5.0, "peak_by": "process"}
    job = folded(*attempt(1, 0, 10, max_rss_mib=9.0), *last(2, 20, 10, **end_values))
    receipt_ = bill(job)
    assert (receipt_["peak_mib"], receipt_["peak_by"]) == (9.0, "at_least")
    assert "memory_mib" not in receipt_["suggestion"]


def test_a_journal_of_an_older_version() -> None:
    """It kept no sums, so its jobs are counted as before."""
    waits = folded(*attempt(1, 0, 600, cpu_s=1.0))
    old = replace(waits, values={"cpu_s": 1.0})
    live_state = LiveState()
    live_state.load(9, [old], [], set())
    job = live_state.fold(last(2, 1600, 300, cpu_s=900.0))[1]
    assert job.values == {"cpu_s": 900.0}
    assert (bill(job)["run_s"], bill(job)["cpu_s"]) == (1900.0, 900.0)
    ended = replace(folded(*last(1, 0, 100, cpu_s=5.0)), values={"cpu_s": 5.0})
    assert bill(ended)["run_s"] == 100.0


def test_a_job_that_is_preempted_often_stays_small() -> None:
    events = [e for n in range(1, 100) for e in attempt(n, 10 * n, 5, cpu_s=1.0)]
    job = folded(*events)
    assert (job.values["active_s"], job.values["cpu_s"]) == (99 * 5.0, 99.0)
    assert len(spans_of(job, NOW)) == MOST_SPANS
