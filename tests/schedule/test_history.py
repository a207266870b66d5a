"""Predictions from jobs that ended: by hand, and never from the future."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.record import run_recorded, twin_of
from tests.twin.strategies import Problem, problems
from tests.twin.twin_cases import group, make

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Knobs, Order, Place
from flyball.schedule.explain import explain_pending
from flyball.twin.twin import Twin

QUIET: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
HISTORY = Knobs(order=Order.HISTORY)
HOUR_S = 3600.0
# Submission, duration, devices, user, tenant, model, and what is predicted when it joins.
JOBS = (
    (0, 100, 1, 0, -1, 0, HOUR_S),  # nothing is known
    (200, 300, 1, 0, -1, 0, 100),  # one like it
    (600, 50, 1, 0, -1, 0, 200),  # the newest counts half: (100 + 300) / 2
    (700, 7, 1, 0, -1, 1, 125),  # another model: its user's of the size, (200 + 50) / 2
    (800, 34, 1, 1, -1, 0, 66),  # another user: all of the size, (125 + 7) / 2
    (900, 10, 2, 1, -1, 0, 50),  # another size: all jobs, (66 + 34) / 2
    (1000, 4, 1, -1, 0, 0, 50),  # a tenant is an owner where there is no user; of the size
    (1100, 1, 1, -1, 0, 0, 4),
    (1200, 1, 1, -1, -1, 0, 14),  # no owner: of the size, ((50 + 4) / 2 + 1) / 2
)


def history_case(jobs: tuple[tuple[float, ...], ...] = JOBS, knobs: Knobs = HISTORY) -> Twin:
    submit, duration, devices, user, tenant, model, _ = zip(*jobs, strict=True)
    columns: dict[str, Any] = {"user": user, "tenant": tenant, "model": model, "models": ("x", "y")}
    return make([group(1, 2)], list(submit), list(duration), list(devices), knobs=knobs, **columns)


def predicted_s(twin: Twin) -> list[float]:
    memos = twin.state.memos.predicted_us[: len(twin.state.jobs)]
    return (memos / 1e6).tolist()  # type: ignore[no-any-return]


@pytest.mark.nojit
def test_predictions_by_hand() -> None:
    twin = history_case()
    twin.run()
    assert predicted_s(twin) == [job[-1] for job in JOBS]


@pytest.mark.nojit
def test_shortest_predicted_device_time_first() -> None:
    # Two users on one device; what the first submits has always been short. When the device
    # comes free at 1,000 s theirs goes first, though it came later and takes longer this time.
    jobs = (
        (0, 10, 1, 0, -1, 0, HOUR_S),
        (20, 200, 1, 1, -1, 0, 10),
        (300, 700, 2, 2, -1, 0, 105),
        (310, 5, 1, 1, -1, 0, 200),
        (320, 50, 2, 0, -1, 1, 105),
        (330, 50, 1, 0, -1, 0, 10),
    )
    twin = history_case(jobs)
    twin.run()
    assert predicted_s(twin) == [job[-1] for job in jobs]
    # Keys at 1,000 s: 200, 105 x 2 devices, 10.
    first = twin.state.runs.first_start_us / 1e6
    assert first.tolist() == [0, 20, 300, 1000, 1050, 1000]


@pytest.mark.nojit
def test_a_job_killed_by_its_limit_teaches_what_it_did() -> None:
    twin = make([group()], [0, 100], [50, 1], knobs=HISTORY, limit_us=[20_000_000, 0])
    twin.run()
    assert twin.state.runs[0].status == Status.TIMEOUT
    assert predicted_s(twin) == [HOUR_S, 20]


@pytest.mark.nojit
def test_no_time_at_all_is_predicted_as_a_microsecond() -> None:
    twin = make([group()], [0, 10, 10], [0, 5, 5], knobs=HISTORY)
    twin.run()
    assert predicted_s(twin) == [HOUR_S, 1e-6, 1e-6]
    assert twin.finished


@pytest.mark.nojit
def test_turned_on_in_between_it_knows_what_ended_before() -> None:
    twin = history_case(knobs=Knobs())
    twin.run(550_000_000)
    assert len(twin.state.memos) == 1
    twin.set_knobs(HISTORY)
    twin.run()
    assert predicted_s(twin)[2:] == [job[-1] for job in JOBS[2:]]
    assert predicted_s(twin)[:2] == [0, 0]  # these had ended


def test_a_job_that_has_not_joined_the_queue_is_explained() -> None:
    # Held back by the first, it would be predicted to take an hour like the second, and come after.
    after: dict[str, Any] = {"after_job": np.array([2]), "after_on": np.array([0])}
    twin = make([group()], [0, 0, 0], [100, 100, 5], knobs=HISTORY, **after)
    twin.run(0)
    answers = explain_pending(twin.state, twin.knobs)
    assert [(answer.job, answer.token) for answer in answers] == [
        (1, "no-free-devices"),
        (2, "waits-for-jobs"),
    ]
    assert predicted_s(twin) == [HOUR_S, HOUR_S, 0]


def by_history(problem: Problem, **knobs: Any) -> Problem:
    """Return the problem with order = history and without dependencies."""
    alone = replace(
        problem.workload, after_job=np.zeros(0, np.int64), after_on=np.zeros(0, np.int64)
    )
    effects = replace(problem.effects, mtbf_h=0.0, estimate_sigma=0.0)
    rules = replace(problem.knobs, order=Order.HISTORY, **knobs)
    return replace(problem, workload=alone, knobs=rules, effects=effects)


@settings(max_examples=80, **QUIET)
@given(problems(), st.floats(0.1, 0.9))
def test_the_future_changes_no_prediction(problem: Problem, share: float) -> None:
    problem = by_history(problem)
    workload, kept = problem.workload, max(1, int(share * len(problem.workload)))
    cut = replace(problem, workload=workload.take(np.arange(kept)))
    until_us = int(workload.submit_us[kept - 1])
    kept = int(np.searchsorted(workload.submit_us, until_us))  # submitted before that instant
    twins = [twin_of(case) for case in (problem, cut)]
    for twin in twins:
        twin.run(until_us - 1)
    first, second = (predicted_s(twin)[:kept] for twin in twins)
    assert first == second


@settings(max_examples=60, **QUIET)
@given(problems())
def test_no_estimate_is_read(problem: Problem) -> None:
    place = problem.knobs.place if problem.knobs.place != Place.HOLD else Place.FASTEST
    problem = by_history(problem, backfill=Backfill.SKIP, place=place, move_s=0.0)
    other = replace(
        problem, workload=replace(problem.workload, estimate_us=problem.workload.estimate_us[::-1])
    )
    assert run_recorded(twin_of(problem)) == run_recorded(twin_of(other))
