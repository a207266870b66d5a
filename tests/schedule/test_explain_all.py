"""Every waiting job has a reason, and every action too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule.explain_cases import (
    EASY,
    SKIP,
    SRTF,
    STRICT,
    TOKENS,
    Case,
    jobs,
    nodes,
)
from tests.twin.strategies import Problem, problems

from flyball.core.codes import Reason, Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.units import to_s, to_us
from flyball.schedule.explain import (
    Names,
    explain,
    explain_pending,
    reason_text,
    reason_token,
)
from flyball.twin.twin import Twin

# All of them ---------------------------------------------------------------------------


def test_explain_pending_goes_by_the_order() -> None:
    knobs = Knobs(order=Order.SHORTEST)
    after = {"after_job": np.array([1]), "after_on": np.array([0])}
    rows = ((0, 5, 4), (0, 5, 1), (0, 90, 4), (0, 30, 4))
    case = Case([nodes(1, 4)], jobs(*rows, **after), knobs)
    answers = explain_pending(case.twin.state, knobs, case.names)
    assert [answer.job for answer in answers] == [3, 2, 1]
    assert answers[0] == case.why(3)
    assert answers[1].numbers["place"] == 2


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_every_waiting_job_has_a_reason(problem: Problem, part: float) -> None:
    twin = _stopped(problem, part)
    before, jobs_before = twin.state.arena.tobytes(), twin.state.jobs.tobytes()
    names = Names.of(problem.workload.ids.tolist(), problem.cluster.groups)
    answers = explain_pending(twin.state, twin.knobs, names)
    status = twin.state.runs.status
    waiting = np.flatnonzero((status == Status.HELD) | (status == Status.PENDING))
    assert sorted(answer.job for answer in answers) == waiting.tolist()
    for answer in answers:
        assert answer.token in TOKENS
        assert answer.sentence.endswith(".") and answer.remedy.endswith(".")
    # Nothing was changed, and true durations were not read.
    assert twin.state.arena.tobytes() == before
    assert twin.state.jobs.tobytes() == jobs_before
    assert explain_pending(twin.snapshot(), twin.knobs, names) == answers


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_what_is_expected_of_the_next_round_comes_true(problem: Problem, part: float) -> None:
    if problem.knobs.preempt != Preempt.ROUNDS:
        problem = replace(problem, knobs=replace(SRTF, order=problem.knobs.order))
    twin = _stopped(problem, part)
    every = to_us(problem.knobs.round_s)
    next_round_us = (twin.now_us // every + 1) * every
    answers = explain_pending(twin.state, twin.knobs)
    arrivals, ends = (int(twin.state.clock[0][name]) for name in ("arrivals", "ends"))
    failures, repairs = (int(twin.state.clock[0][name]) for name in ("failures", "repairs"))
    if twin.next_us != next_round_us:
        return
    twin.run(next_round_us)
    clock = twin.state.clock[0]
    if (clock.arrivals, clock.ends, clock.failures, clock.repairs) != (
        arrivals, ends, failures, repairs,
    ):  # fmt: skip
        return
    for answer in answers:
        starts = bool(twin.state.runs[answer.job].status == Status.RUNNING)
        assert starts == (answer.token in ("waits-for-round", "next-decision"))


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_expected_starts_hold_if_estimates_do(problem: Problem, part: float) -> None:
    """With exact estimates and all nodes up the strict head starts when expected, none before."""
    backfill = problem.knobs.backfill if problem.knobs.preempt == Preempt.NEVER else Backfill.SKIP
    size = len(problem.workload)
    exact = replace(
        problem.workload,
        estimate_us=np.full(size, np.nan),
        limit_us=np.zeros(size, np.int64),
        quantiles_us=None,
    )
    problem = Problem(
        replace(problem.cluster, power_budget_w=0.0),
        exact,
        replace(problem.knobs, preempt=Preempt.NEVER, backfill=backfill, sleep_s=-1.0),
        Effects(),
    )
    twin = _stopped(problem, part)
    now_us = twin.now_us
    answers = [
        answer
        for answer in explain_pending(twin.state, twin.knobs)
        if "expected_in_s" in answer.numbers and answer.token != "waits-for-jobs"
    ]
    arrived = twin.state.clock[0].next_job
    twin.run()
    for answer in answers:
        wait_s = to_s(int(twin.state.runs[answer.job].first_start_us) - now_us)
        assert wait_s >= answer.numbers["expected_in_s"]
        alone = arrived == size and not len(exact.after_job) and not exact.group_limits
        if alone and "expected to start" in answer.remedy and backfill == Backfill.STRICT:
            assert wait_s == answer.numbers["expected_in_s"]


def _stopped(problem: Problem, part: float) -> Twin:
    """The twin at some instant of the arrivals."""
    twin = Twin(problem.cluster, problem.workload, problem.knobs, problem.effects)
    begin, span = int(problem.workload.submit_us[0]), problem.workload.span_us
    twin.run(begin + round(part * span))
    return twin


# What was done ---------------------------------------------------------------------------


def test_reasons_of_actions() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 4), (0, 80, 1)), EASY)
    plan = case.twin.state.plan[: case.twin.state.clock[0].actions]
    texts = {reason_token(action): reason_text(action, case.names, 0) for action in plan}
    assert texts == {
        "in-order": "J0 is next in the queue's order and fits.",
        "kept-for-head": (
            "Kept for j1, the first that does not fit, which is expected to start in about 100 s."
        ),
        "backfilled": "J2 fits and is not expected to delay the first job that waits.",
    }
    case = case.with_knobs(backfill=Backfill.SKIP)
    plan = case.twin.state.plan[: case.twin.state.clock[0].actions]
    assert [reason_token(action) for action in plan] == ["in-order", "skipped-ahead"]
    assert reason_text(plan[1]) == "#2 fits, and a job before it does not."
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 100, 1)), SRTF, 60)
    plan = case.twin.state.plan[: case.twin.state.clock[0].actions]
    assert [reason_token(action) for action in plan] == ["gave-way", "made-room"]
    assert "by 14.0 min" in reason_text(plan[0])
    assert "took their devices" in reason_text(plan[1])
    assert {reason.name.lower().replace("_", "-") for reason in Reason} == {
        "in-order", "skipped-ahead", "backfilled", "made-room", "gave-way", "kept-for-head",
        "borrowed", "reclaimed", "gave-back", "its-turn", "grew", "shrank", "changed-type", "sized",
        "shared", "parted", "capped", "uncapped", "sent-to-sleep", "woken", "moved", "scaled",
        "let-in", "overdue", "yielded", "moved-up", "released", "rationed", "over-budget", "paused",
        "outbid",
    }  # fmt: skip


def test_names_where_none_are_given() -> None:
    case = Case([nodes(1, 4), nodes(1, 1, "T4", "b")], jobs((0, 100, 4), (0, 50, 4)), SKIP)
    answer = explain(case.twin.state, SKIP, 1)
    assert answer.sentence == "Needs 4 of the 4 devices it can run on (pool 0); none is free."


def test_names_are_kept_whatever_devices_are_called() -> None:
    """A job or a tenant named like a word of the sentences keeps its name."""
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2), (0, 20, 2)), STRICT)
    names = replace(case.names, jobs=["a", "device", "devices"], unit="core")
    answer = explain(case.twin.state, STRICT, 2, names)
    assert answer.sentence == (
        "Number 2 of 2, behind device, which needs 2 of the 4 cores; 1 is free."
    )
    plan = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 100, 1)), SRTF, 60).twin.state.plan
    assert reason_text(plan[1], names).endswith("and took their cores.")
