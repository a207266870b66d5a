"""Jobs that wait because of a rule, another job or a round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.schedule.explain_cases import (
    EASY,
    SKIP,
    SRTF,
    STRICT,
    Case,
    jobs,
    nodes,
)

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.knobs import Knobs, Place
from flyball.core.units import to_us
from flyball.core.workload import JobClass
from flyball.schedule.explain import (
    explain,
)
from flyball.schedule.kernel import decide_now
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

# Rules ---------------------------------------------------------------------------


@pytest.mark.nojit
def test_would_delay_head() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 4), (0, 300, 1)), EASY)
    answer = case.why(2)
    assert answer.token == "would-delay-head"
    assert answer.sentence == (
        "Would fit now on a0 and take about 5.0 min, but a0 is kept for j1, which is expected "
        "to start in about 100 s."
    )
    assert "at most 100 s" in answer.remedy
    assert answer.numbers["estimate_at_most_s"] == 100
    assert case.with_job(2, estimate_us=100e6).runs(2)
    assert not case.with_job(2, estimate_us=100e6 + 1).runs(2)
    head = case.why(1)
    assert head.token == "no-free-devices"
    assert "expected to start in about 100 s" in head.remedy
    assert case.changed(at_s=100).runs(1)


def test_would_delay_head_by_a_quantile() -> None:
    """At the 95 % quantile the third job takes four times its estimate of 50 s."""
    workload = jobs((0, 100, 3), (0, 50, 4), (0, 50, 1))
    spread = np.array([[1.0] * 5, [1.0] * 5, [0.25, 0.5, 1.0, 2.0, 4.0]]) * 50e6
    workload = replace(workload, quantiles_us=spread)
    assert Case([nodes(1, 4)], workload, EASY).runs(2)
    case = Case([nodes(1, 4)], workload, replace(EASY, backfill_quantile=0.95))
    answer = case.why(2)
    assert answer.token == "would-delay-head"
    assert "take about 3.3 min (95 % quantile)" in answer.sentence
    most_us = answer.numbers["estimate_at_most_s"] * 1e6
    assert most_us == pytest.approx(25e6, rel=1e-6)
    assert case.with_job(2, estimate_us=most_us).runs(2)
    assert not case.with_job(2, estimate_us=most_us + 100).runs(2)


def test_overtaking_by_a_quantile() -> None:
    """Keys are twice the estimates: the remedy is an estimate, not a key."""
    workload = jobs((0, 100, 4), (0, 50, 4), (0, 60, 1))
    spread = np.array([[1.0] * 5, [1.0] * 5, [0.25, 0.5, 1.0, 2.0, 4.0]]) * 60e6
    knobs = replace(get_policy("sjf").knobs, order_quantile=0.75)
    case = Case([nodes(1, 5)], replace(workload, quantiles_us=spread), knobs)
    answer = case.why(2)
    assert answer.token == "behind-head"
    most_us = answer.numbers["estimate_at_most_s"] * 1e6
    assert most_us == pytest.approx(50e6, rel=1e-4)
    assert case.with_job(2, estimate_us=most_us).runs(2)


def test_would_delay_head_but_not_with_fewer_devices() -> None:
    rows = ((0, 100, 2), (0, 500, 3), (0, 50, 4), (0, 300, 2))
    case = Case([nodes(2, 4)], jobs(*rows), EASY)
    answer = case.why(3)
    assert answer.token == "would-delay-head"
    assert "ask for 1 GPU instead of 2: with the same estimate it would start now on a1" in (
        answer.remedy
    )
    assert case.with_job(3, devices=1).runs(3)


def test_a_restart_counts_against_the_estimate() -> None:
    # j1 runs on a1 until that fails at 10. It then needs 7 s to set up again.
    workload = jobs((0, 100, 2), (0, 400, 1), (5, 50, 4), priority=[0, 0, 1])
    knobs = replace(EASY, place=Place.SPREAD)
    case = Case([nodes(2, 4)], workload, knobs, 10, outages=((10.0, 1e6, 1),))
    answer = case.why(1)
    assert answer.token == "would-delay-head"
    assert answer.numbers["run_s"] == 407
    assert answer.numbers["estimate_at_most_s"] == 83
    assert case.with_job(1, estimate_us=83e6).runs(1)
    assert not case.with_job(1, estimate_us=83e6 + 1).runs(1)


def test_power_budget() -> None:
    workload = jobs((0, 100, 1), (0, 50, 2))
    idle_w = float(Twin(Cluster("c", (nodes(1, 4),)), workload, SKIP).state.clock[0].power_w)
    case = Case([nodes(1, 4)], workload, SKIP, budget_w=idle_w + 600)
    answer = case.why(1)
    assert answer.token == "power-budget"
    drawn_w, added_w = answer.numbers["drawn_w"], answer.numbers["added_w"]
    assert drawn_w == case.twin.state.clock[0].power_w
    assert added_w == pytest.approx(2 * (drawn_w - idle_w))
    assert answer.sentence.startswith("Would draw ")
    assert "ask for 1 GPU instead of 2" in answer.remedy
    assert case.with_job(1, devices=1).runs(1)
    # A cap that holds for new starts: decide again with it, and just not with the next one up.
    for cap, starts in (
        (answer.numbers["cap_at_most"], True),
        (answer.numbers["cap_at_most"] + 0.05, False),
    ):
        again = case.changed()
        again.twin.set_knobs(replace(SKIP, cap=cap))
        decide_now(again.twin.state, replace(SKIP, cap=cap).pack())
        assert again.runs(1) == starts


@pytest.mark.nojit
def test_held_for_faster() -> None:
    groups = [nodes(1, 1, "A100"), nodes(1, 1, "K80", "b")]
    workload = jobs((0, 3600, 1), (0, 7200, 1))
    case = Case(groups, workload, Knobs(place=Place.HOLD, hold_s=600.0))
    answer = case.why(1)
    assert answer.token == "held-for-faster"
    assert "on b0 (K80), which is free" in answer.sentence
    assert "the limit is 10.0 min" in answer.sentence
    enough_s = answer.numbers["hold_at_least_s"]
    longer_s = answer.numbers["run_free_s"] - answer.numbers["run_best_s"]
    assert enough_s - 1 < longer_s <= enough_s
    assert case.with_knobs(hold_s=enough_s).runs(1)
    assert not case.with_knobs(hold_s=enough_s - 1).runs(1)
    expected_s = answer.numbers["expected_in_s"]
    assert case.changed(at_s=expected_s).runs(1)
    assert not case.changed(at_s=expected_s - 1).runs(1)


def test_two_rules_at_once() -> None:
    """Both the budget and the reservation are in the way: the first is named."""
    kind = [JobClass.COMPUTE_INTENSIVE, JobClass.MEMORY_BOUND, JobClass.COMPUTE_INTENSIVE]
    workload = jobs((0, 100, 3), (0, 50, 4), (0, 300, 1), kind=kind)
    drawn_w = float(Case([nodes(1, 4)], workload, EASY).twin.state.clock[0].power_w)
    case = Case([nodes(1, 4)], workload, EASY, budget_w=drawn_w + 100)
    answer = case.why(2)
    assert answer.token == "would-delay-head"
    assert "estimate_at_most_s" not in answer.numbers  # would not be enough


def test_a_head_that_waits_for_power_only() -> None:
    rows = ((0, 100, 1), (0, 50, 4), (0, 300, 1))
    workload = jobs(*rows)
    idle_w = float(Twin(Cluster("c", (nodes(2, 4),)), workload, EASY).state.clock[0].power_w)
    case = Case([nodes(2, 4)], workload, EASY, budget_w=idle_w + 1000)
    assert case.why(1).token == "power-budget"
    assert case.runs(2)  # beside the first, on a node that is not kept
    case = Case([nodes(1, 4)], jobs((0, 100, 1), (0, 50, 3), (0, 300, 1)), EASY,
                budget_w=idle_w / 2 + 800)  # fmt: skip
    answer = case.why(2)
    assert answer.token == "would-delay-head"
    assert "a0 is kept for j1, which has its GPUs and waits for the power budget" in (
        answer.sentence
    )
    assert answer.remedy == "Wait until the first has started."


# Held ------------------------------------------------------------------------------


@pytest.mark.nojit
def test_waits_for_jobs() -> None:
    after = {"after_job": np.array([1, 1]), "after_on": np.array([0, 2])}
    case = Case([nodes(1, 4)], jobs((0, 100, 1), (0, 50, 1), (500, 5, 1), **after), SKIP)
    answer = case.why(1)
    assert answer.token == "waits-for-jobs"
    assert answer.sentence == (
        "Waits for the end of 2 jobs: j0 (running, expected to end in about 100 s) and "
        "j2 (not submitted yet)."
    )
    assert answer.remedy == "Wait for them; or drop its `after`: it would start now on a0."
    assert answer.numbers["waits_for"] == ["j0", "j2"]
    none = np.zeros(0, np.int64)
    assert case.changed(workload=replace(case.arguments[1], after_job=none, after_on=none)).runs(1)
    later = case.changed(at_s=100).why(1)
    assert later.numbers["waits_for"] == ["j2"]


def test_waits_for_jobs_that_will_not_be_missed() -> None:
    after = {"after_job": np.array([2]), "after_on": np.array([0])}
    case = Case([nodes(1, 1)], jobs((0, 100, 1), (0, 50, 1), (0, 5, 1), **after), STRICT)
    answer = case.why(2)
    assert answer.numbers["expected_in_s"] == 100
    assert answer.remedy == "Wait for them; without `after` it would wait in the queue instead."


def test_array_limit() -> None:
    workload = jobs(*[(0, 100, 1)] * 5, group=0, group_limits=(2,))
    case = Case([nodes(1, 3)], workload, SKIP)
    answer = case.why(3)
    assert answer.token == "array-limit"
    assert answer.sentence == (
        "Its array lets 2 tasks pend or run at a time: 2 running, 0 pending, 1 held before it."
    )
    assert answer.numbers["limit_needed"] == 4
    wider = case.changed(workload=replace(workload, group_limits=(4,)))
    assert wider.twin.state.runs[3].status == Status.PENDING
    assert case.changed(workload=replace(workload, group_limits=(3,))).why(3).token == answer.token


def test_jobs_that_do_not_wait() -> None:
    case = Case([nodes(2, 4)], jobs((0, 30, 1), (0, 200, 8), (900, 5, 1)), SKIP, 60)
    assert [case.why(job).token for job in range(3)] == ["ended", "running", "not-submitted"]
    assert case.why(1).sentence == (
        "Does not wait: has run on a0 and a1 for 0 s, expected to end in about 3.3 min by its "
        "estimate."
    )
    assert case.why(2).sentence == "Is not submitted yet; submission is in 14.5 min."
    assert case.twin.now_us == to_us(30)  # what is explained is the last decision


# Rounds ------------------------------------------------------------------------------


@pytest.mark.nojit
def test_waits_for_round() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 100, 1)), SRTF, 10)
    answer = case.why(1)
    assert answer.token == "waits-for-round"
    assert answer.sentence == (
        "May not start now, but may take the GPUs of j0 in the next round, in 50 s."
    )
    assert not case.changed(at_s=59).runs(1)
    assert case.changed(at_s=60).runs(1)


@pytest.mark.nojit
def test_not_far_enough_ahead() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 900, 1)), SRTF, 10)
    answer = case.why(1)
    assert answer.token == "not-far-enough-ahead"
    assert answer.sentence == (
        "Finds no room; of the 1 job running there 1 comes after it, the furthest by 40 s of "
        "estimated work left, and gives way only for more than 60 s (margin_s)."
    )
    assert not case.changed(at_s=60).runs(1)
    assert case.with_knobs(margin_s=39.0).changed(at_s=60).runs(1)


def test_not_far_enough_for_lack_of_devices() -> None:
    rows = ((0, 1000, 2), (0, 20, 2), (10, 100, 4))
    case = Case([nodes(1, 4)], jobs(*rows), replace(SRTF, round_s=15.0, margin_s=0.0), 10)
    answer = case.why(2)
    assert answer.token == "not-far-enough-ahead"
    assert "1 may give way to it, but that leaves at most 2 GPUs free on one node" in (
        answer.sentence
    )


def test_not_far_enough_while_the_other_is_young() -> None:
    rows = ((0, 20, 1), (20, 1000, 1), (30, 100, 1))
    case = Case([nodes(1, 1)], jobs(*rows), SRTF, 30)
    answer = case.why(2)
    assert answer.token == "not-far-enough-ahead"
    assert "not before they have run for 60 s" in answer.sentence
    assert answer.numbers["too_young"] == 1


def test_not_far_enough_where_service_counts() -> None:
    knobs = get_policy("las").knobs
    rows = ((0, 50, 1), (1, 1e5, 2), (2, 1e5, 1))
    case = Case([nodes(1, 2)], jobs(*rows), knobs, 60)
    answer = case.why(1)
    assert answer.token == "not-far-enough-ahead"
    assert "none is demoted below it; that takes 60.0 min of GPU time" in answer.sentence
    assert not case.changed(at_s=3600).runs(1)
    assert case.changed(at_s=3660).runs(1)  # the round after the other has had its hour


def test_no_free_devices_behind_all_that_run() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 5000, 1)), SRTF, 10)
    answer = case.why(1)
    assert answer.token == "no-free-devices"
    assert "the 1 job running there comes before it" in answer.sentence
    assert answer.remedy == "Wait for running jobs to end."


def test_next_decision() -> None:
    twin = Twin(Cluster("c", (nodes(1, 1),)), jobs((0, 1000, 1), (10, 100, 1)), SKIP)
    run: Any = twin.state.runs[0]
    run.status = Status.PENDING  # as if it came after the last decision
    for knobs, ending in ((SKIP, "considers it."), (SRTF, "in 60 s at the latest.")):
        answer = explain(twin.state, knobs, 0)
        assert answer.token == "next-decision"
        assert answer.sentence == "Fits now on p0-0: room came free in or after the last decision."
        assert answer.remedy.endswith(ending)
