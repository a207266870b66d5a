"""Each reason in a situation made for it; each what-if by really changing the workload.

Clusters are of V100, the reference device, unless the case is about types: rates are then 1 and
times in the cases are seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.twin.strategies import Problem, problems

from flyball.core import state as dtypes
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.codes import Reason, Status
from flyball.core.effects import Effects
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, Span
from flyball.core.state import records
from flyball.core.units import to_s, to_us
from flyball.core.workload import JobClass, Workload
from flyball.schedule.explain import (
    Explanation,
    Names,
    explain,
    explain_pending,
    reason_text,
    reason_token,
)
from flyball.schedule.kernel import decide_now
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

TOKENS = {
    "waits-for-jobs", "array-limit", "behind-head", "beyond-depth", "next-decision",
    "would-delay-head", "power-budget", "held-for-faster", "nodes-down", "fragmented",
    "no-suitable-devices", "no-free-devices", "waits-for-round", "not-far-enough-ahead",
}  # fmt: skip
STRICT, SKIP, EASY = (Knobs(backfill=each) for each in (Backfill.STRICT, Backfill.SKIP,
                                                        Backfill.EASY))  # fmt: skip
GIB = 1024


def nodes(count: int, devices: int, device: str = "V100", name: str = "a") -> NodeGroup:
    return NodeGroup(name, count, device, devices)


def jobs(*rows: tuple[float, float, int], **columns: Any) -> Workload:
    """Rows of (submission, duration, devices); jobs are called j0, j1, ..."""
    submit_s, duration_s, devices = zip(*rows, strict=True)
    return Workload.of("jobs", submit_s, duration_s, devices, **columns)


def with_job(workload: Workload, job: int, **changes: Any) -> Workload:
    """The workload with one job's request changed."""
    columns = {}
    for name, value in changes.items():
        column = getattr(workload, name).copy()
        column[job] = value
        columns[name] = column
    return replace(workload, **columns)


class Case:
    """A cluster, a workload and knobs, stopped at an instant."""

    def __init__(
        self,
        groups: list[NodeGroup],
        workload: Workload,
        knobs: Knobs,
        at_s: float = 0.0,
        budget_w: float = 0.0,
        outages: tuple[tuple[float, float, int], ...] = (),
    ) -> None:
        self.arguments = (groups, workload, knobs, at_s, budget_w, outages)
        cluster = Cluster("c", tuple(groups), budget_w)
        self.twin = Twin(cluster, workload, knobs)
        if outages:
            listed: Any = records(len(outages), dtypes.OUTAGE)
            for row, (down_s, up_s, node) in zip(listed, outages, strict=True):
                row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
            self.twin.state = self.twin.state._replace(outages=listed)
        self.twin.run(to_us(at_s))
        self.names = Names.of(workload.ids.tolist(), groups)

    def why(self, job: int) -> Explanation:
        found = explain(self.twin.state, self.twin.knobs, job, self.names)
        assert found.job == job
        assert found.sentence.endswith(".")
        assert found.remedy.endswith(".")
        return found

    def runs(self, job: int) -> bool:
        return bool(self.twin.state.runs[job].status == Status.RUNNING)

    def changed(self, **changes: Any) -> Case:
        """The same with another workload, other knobs or another instant."""
        names = ("groups", "workload", "knobs", "at_s", "budget_w", "outages")
        return Case(**{**dict(zip(names, self.arguments, strict=True)), **changes})

    def with_job(self, job: int, **changes: Any) -> Case:
        return self.changed(workload=with_job(self.arguments[1], job, **changes))

    def with_knobs(self, **changes: Any) -> Case:
        return self.changed(knobs=replace(self.arguments[2], **changes))


# No room ---------------------------------------------------------------------


@pytest.mark.nojit
def test_no_free_devices() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2)), SKIP)
    found = case.why(1)
    assert found.token == "no-free-devices"
    assert found.sentence == "Needs 2 of the 4 devices; 1 is free."
    assert found.remedy == (
        "Wait: not before about 100 s, by the running jobs' estimates; or ask for 1 device "
        "instead of 2: with the same estimate it would start now on a0."
    )
    assert found.numbers == {
        "devices": 2, "place": 1, "queue": 1, "free": 1, "total": 4, "expected_in_s": 100.0,
    }  # fmt: skip
    assert not case.runs(1)
    assert case.with_job(1, devices=1).runs(1)
    assert case.changed(at_s=100).runs(1)


def test_the_first_in_a_strict_queue_has_an_expected_start() -> None:
    rows = ((0, 100, 2), (0, 70, 2), (0, 50, 3), (0, 10, 1))
    case = Case([nodes(1, 4)], jobs(*rows), STRICT)
    found = case.why(2)
    assert found.sentence == "Needs 3 of the 4 devices; none is free."
    assert "expected to start in about 100 s" in found.remedy
    assert not case.changed(at_s=99).runs(2)
    assert case.changed(at_s=100).runs(2)


def test_only_pools_it_can_run_on_count() -> None:
    groups = [nodes(1, 2, "A100"), nodes(1, 4, "T4", "b")]
    workload = jobs((0, 100, 2), (0, 100, 4), (0, 50, 2), memory_mib=[60 * GIB, 0, 20 * GIB])
    found = Case(groups, workload, SKIP).why(2)
    assert found.token == "no-free-devices"
    assert found.sentence == "Needs 2 of the 2 devices it can run on (A100); none is free."


@pytest.mark.nojit
def test_fragmented_over_nodes() -> None:
    case = Case([nodes(2, 4)], jobs((0, 100, 3), (0, 80, 3), (0, 50, 2)), SKIP)
    found = case.why(2)
    assert found.token == "fragmented"
    assert found.sentence == "Needs 2 of the 8 devices; 2 are free, but at most 1 on one node."
    assert "ask for 1 device instead of 2" in found.remedy
    assert "span=any" in found.remedy
    assert found.numbers["expected_in_s"] == 80
    assert found.numbers["most_on_node"] == 1
    assert 0 < found.numbers["spread_speed"] <= 1
    assert case.with_job(2, devices=1).runs(2)
    assert case.with_knobs(span=Span.ANY).runs(2)
    assert case.changed(at_s=80).runs(2)


@pytest.mark.parametrize(("first", "said"), [(3, "none is empty"), (0, "1 node is empty")])
def test_fragmented_for_a_gang_larger_than_a_node(first: int, said: str) -> None:
    spread = Knobs(place=Place.SPREAD)
    rows = [(0, 100, 3), (0, 100, 3), *([(0, 100, first)] if first else []), (0, 50, 9)]
    last = len(rows) - 1
    case = Case([nodes(3, 6), nodes(1, 1, "T4", "b")], jobs(*rows), spread)
    if first == 0:  # 6 and 3 would do; so take one more
        assert case.runs(last)
        case = case.with_job(last, devices=10)
    found = case.why(last)
    assert found.token == "fragmented"
    assert found.sentence.endswith(f"a gang larger than a node takes empty nodes and {said}.")
    smaller = int(found.remedy.lower().split("ask for ")[1].split(" ")[0])
    assert case.with_job(last, devices=smaller).runs(last)
    assert not case.with_job(last, devices=smaller + 1).runs(last)


def test_fragmented_over_groups() -> None:
    groups = [nodes(1, 4), nodes(1, 4, "V100", "b")]
    case = Case(groups, jobs((0, 100, 2), (0, 90, 3), (0, 50, 3)), SKIP)
    found = case.why(2)
    assert found.token == "fragmented"
    assert "3 are free, but at most 2 of one group" in found.sentence
    assert "span=any" not in found.remedy
    assert case.with_job(2, devices=2).runs(2)


@pytest.mark.nojit
def test_no_suitable_devices_for_its_memory() -> None:
    groups = [nodes(1, 2, "A100"), nodes(1, 2, "T4", "b")]
    workload = jobs((0, 100, 2), (0, 50, 1), memory_mib=[60 * GIB, 20 * GIB], kind=0)
    case = Case(groups, workload, SKIP)
    found = case.why(1)
    assert found.token == "no-suitable-devices"
    assert found.sentence == (
        "Needs 1 of the 2 devices it can run on (A100) with 20 GiB each, and 0 of these are "
        "free; there is room on T4, but T4 has 16 GiB."
    )
    assert "if 16 GiB are enough, say so: it would start now on b0" in found.remedy
    assert found.numbers["memory_at_most_gib"] == 16
    assert case.with_job(1, memory_mib=16 * GIB).runs(1)
    assert not case.with_job(1, memory_mib=16 * GIB + 1).runs(1)


def test_no_suitable_devices_for_its_model() -> None:
    groups = [nodes(1, 2), nodes(1, 2, "K80", "b")]
    workload = jobs((0, 100, 2), (0, 50, 2), model=0, models=("ResNet-50:128",))
    found = Case(groups, workload, SKIP).why(1)
    assert found.token == "no-suitable-devices"
    assert "there is room on K80, but K80 does not run it" in found.sentence
    assert found.remedy.startswith("Wait: not before about 100 s")


def test_nodes_down() -> None:
    outages = ((10.0, 500.0, 1),)
    case = Case([nodes(2, 4)], jobs((0, 100, 4), (20, 50, 3)), SKIP, 20, outages=outages)
    found = case.why(1)
    assert found.token == "nodes-down"
    assert "1 of the 2 nodes is down (a1)" in found.sentence
    assert found.remedy == "Bring it back: it would then start at once."
    assert case.changed(outages=()).runs(1)


def test_nodes_down_only_if_they_would_help_this_job() -> None:
    outages = ((10.0, 500.0, 1),)
    workload = jobs((0, 100, 4), (20, 50, 3), (20, 50, 3))
    case = Case([nodes(2, 4)], workload, SKIP, 20, outages=outages)
    assert [case.why(each).token for each in (1, 2)] == ["nodes-down", "no-free-devices"]
    assert "1 node is down" in case.why(2).sentence
    assert [case.changed(outages=()).runs(each) for each in (1, 2)] == [True, False]


def test_nodes_down_if_the_others_could_never_hold_it() -> None:
    outages = ((10.0, 500.0, 1),)
    case = Case([nodes(2, 4)], jobs((0, 100, 4), (20, 50, 8)), SKIP, 20, outages=outages)
    found = case.why(1)
    assert found.token == "nodes-down"
    assert found.remedy == "Bring it back."


@pytest.mark.nojit
def test_a_share_of_a_device() -> None:
    workload = jobs((0, 100, 1), (0, 50, 1), milli=[700, 500], memory_mib=[10 * GIB, 4 * GIB])
    case = Case([nodes(1, 1)], workload, SKIP)
    found = case.why(1)
    assert found.token == "no-free-devices"
    assert found.sentence == ("Needs 0.5 of a device with 4 GiB; none of 1 has that much free.")
    assert found.remedy.startswith("Ask for 0.3 of a device instead of 0.5: ")
    assert found.numbers["share"] == 0.5
    assert case.with_job(1, milli=300).runs(1)
    assert not case.with_job(1, milli=301).runs(1)


def test_a_share_without_the_memory() -> None:
    workload = jobs((0, 100, 1), (0, 50, 1), milli=[300, 500], memory_mib=[10 * GIB, 8 * GIB])
    case = Case([nodes(1, 1)], workload, SKIP)
    assert "1 more would, but for the memory" in case.why(1).sentence
    assert case.with_job(1, memory_mib=6 * GIB).runs(1)


# Not looked at -----------------------------------------------------------------


@pytest.mark.nojit
def test_behind_head() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2), (0, 20, 1), (0, 20, 2)), STRICT)
    found = case.why(2)
    assert found.token == "behind-head"
    assert found.sentence == (
        "Number 2 of 3 in the queue, and nobody passes the first: j1 needs 2 of the 4 devices; "
        "1 is free."
    )
    assert "not before about 100 s" in found.remedy
    assert "give it priority 1 or above: it would start now on a0" in found.remedy
    assert found.numbers["fits_now"]
    assert case.with_job(2, priority=1.0).runs(2)
    assert case.with_knobs(backfill=Backfill.SKIP).runs(2)
    assert case.why(1).token == "no-free-devices"
    behind = case.why(3)
    assert not behind.numbers["fits_now"]
    assert "priority" not in behind.remedy


def test_behind_head_of_the_shortest() -> None:
    knobs = Knobs(order=Order.SHORTEST, backfill=Backfill.STRICT)
    case = Case([nodes(1, 4)], jobs((0, 10, 3), (0, 50, 2), (0, 200, 1)), knobs)
    found = case.why(2)
    assert found.token == "behind-head"
    assert "an estimate of at most 49 s instead of 3.3 min would put it first" in found.remedy
    at_most_us = to_us(found.numbers["estimate_at_most_s"])
    assert case.with_job(2, estimate_us=at_most_us).runs(2)
    assert not case.with_job(2, estimate_us=at_most_us + 1_000_000).runs(2)


def test_behind_head_where_priority_is_nothing() -> None:
    knobs = Knobs(backfill=Backfill.STRICT, priority_s=0.0)
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2), (0, 20, 1)), knobs)
    assert "priority" not in case.why(2).remedy
    knobs = Knobs(backfill=Backfill.STRICT, priority_s=10.0)
    rows = ((0, 100, 3), (0, 50, 2), (25, 20, 1))
    case = Case([nodes(1, 4)], jobs(*rows), knobs, 25)
    assert case.why(2).numbers["priority_at_least"] == 3
    assert case.with_job(2, priority=3.0).runs(2)
    assert not case.with_job(2, priority=2.0).runs(2)


def test_beyond_depth() -> None:
    rows = ((0, 100, 3), (0, 50, 4), (0, 50, 4), (0, 20, 1), (0, 20, 2))
    case = Case([nodes(1, 4)], jobs(*rows), Knobs(backfill=Backfill.EASY, depth=2))
    found = case.why(3)
    assert found.token == "beyond-depth"
    assert found.sentence == (
        "Would fit now on a0, but is number 3 in the queue and the scan stops after 2 jobs."
    )
    assert found.numbers["depth_needed"] == 3
    assert case.with_knobs(depth=3).runs(3)
    assert "it would fit now on a0" in case.why(4).remedy  # not: start


def test_beyond_depth_counts_those_the_scan_started() -> None:
    rows = ((0, 100, 2), (0, 50, 4), (0, 20, 1), (0, 20, 1))
    case = Case([nodes(1, 4)], jobs(*rows), Knobs(backfill=Backfill.EASY, depth=2))
    found = case.why(3)
    assert case.runs(2)
    assert found.token == "beyond-depth"
    assert found.numbers["depth_needed"] == 3
    assert case.with_knobs(depth=3).runs(3)


# Rules ---------------------------------------------------------------------------


@pytest.mark.nojit
def test_would_delay_head() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 4), (0, 300, 1)), EASY)
    found = case.why(2)
    assert found.token == "would-delay-head"
    assert found.sentence == (
        "Would fit now on a0 and take about 5.0 min, but a0 is kept for j1, which is expected "
        "to start in about 100 s."
    )
    assert "at most 100 s" in found.remedy
    assert found.numbers["estimate_at_most_s"] == 100
    assert case.with_job(2, estimate_us=100e6).runs(2)
    assert not case.with_job(2, estimate_us=100e6 + 1).runs(2)
    head = case.why(1)
    assert head.token == "no-free-devices"
    assert "expected to start in about 100 s" in head.remedy
    assert case.changed(at_s=100).runs(1)


def test_would_delay_head_but_not_with_fewer_devices() -> None:
    rows = ((0, 100, 2), (0, 500, 3), (0, 50, 4), (0, 300, 2))
    case = Case([nodes(2, 4)], jobs(*rows), EASY)
    found = case.why(3)
    assert found.token == "would-delay-head"
    assert "ask for 1 device instead of 2: with the same estimate it would start now on a1" in (
        found.remedy
    )
    assert case.with_job(3, devices=1).runs(3)


def test_a_restart_counts_against_the_estimate() -> None:
    # j1 runs on a1 until that fails at 10. It then needs 7 s to set up again.
    workload = jobs((0, 100, 2), (0, 400, 1), (5, 50, 4), priority=[0, 0, 1])
    knobs = replace(EASY, place=Place.SPREAD)
    case = Case([nodes(2, 4)], workload, knobs, 10, outages=((10.0, 1e6, 1),))
    found = case.why(1)
    assert found.token == "would-delay-head"
    assert found.numbers["run_s"] == 407
    assert found.numbers["estimate_at_most_s"] == 83
    assert case.with_job(1, estimate_us=83e6).runs(1)
    assert not case.with_job(1, estimate_us=83e6 + 1).runs(1)


def test_power_budget() -> None:
    workload = jobs((0, 100, 1), (0, 50, 2))
    idle_w = float(Twin(Cluster("c", (nodes(1, 4),)), workload, SKIP).state.clock[0].power_w)
    case = Case([nodes(1, 4)], workload, SKIP, budget_w=idle_w + 600)
    found = case.why(1)
    assert found.token == "power-budget"
    drawn_w, added_w = found.numbers["drawn_w"], found.numbers["added_w"]
    assert drawn_w == case.twin.state.clock[0].power_w
    assert added_w == pytest.approx(2 * (drawn_w - idle_w))
    assert found.sentence.startswith("Would fit now on a0 and draw ")
    assert "ask for 1 device instead of 2" in found.remedy
    assert case.with_job(1, devices=1).runs(1)
    # A cap that holds for new starts: decide again with it, and just not with the next one up.
    for cap, starts in (
        (found.numbers["cap_at_most"], True),
        (found.numbers["cap_at_most"] + 0.05, False),
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
    found = case.why(1)
    assert found.token == "held-for-faster"
    assert "on b0 (K80), which is free" in found.sentence
    assert "the limit is 10.0 min" in found.sentence
    enough_s = found.numbers["hold_at_least_s"]
    longer_s = found.numbers["run_free_s"] - found.numbers["run_best_s"]
    assert enough_s - 1 < longer_s <= enough_s
    assert case.with_knobs(hold_s=enough_s).runs(1)
    assert not case.with_knobs(hold_s=enough_s - 1).runs(1)
    expected_s = found.numbers["expected_in_s"]
    assert case.changed(at_s=expected_s).runs(1)
    assert not case.changed(at_s=expected_s - 1).runs(1)


def test_two_rules_at_once() -> None:
    """Both the budget and the reservation are in the way: the first is named."""
    kind = [JobClass.COMPUTE_INTENSIVE, JobClass.MEMORY_BOUND, JobClass.COMPUTE_INTENSIVE]
    workload = jobs((0, 100, 3), (0, 50, 4), (0, 300, 1), kind=kind)
    drawn_w = float(Case([nodes(1, 4)], workload, EASY).twin.state.clock[0].power_w)
    case = Case([nodes(1, 4)], workload, EASY, budget_w=drawn_w + 100)
    found = case.why(2)
    assert found.token == "would-delay-head"
    assert "estimate_at_most_s" not in found.numbers  # would not be enough


def test_devices_that_would_break_the_budget_even_alone() -> None:
    groups = [nodes(1, 4, "T4"), nodes(1, 4, "V100", "b")]
    workload = jobs((0, 100, 4), (0, 50, 4))
    idle_w = float(Twin(Cluster("c", tuple(groups)), workload, SKIP).state.clock[0].power_w)
    found = Case(groups, workload, SKIP, budget_w=idle_w + 500).why(1)
    assert found.token == "no-suitable-devices"
    assert "V100 would break the power budget even alone" in found.sentence


def test_a_head_that_waits_for_power_only() -> None:
    rows = ((0, 100, 1), (0, 50, 4), (0, 300, 1))
    workload = jobs(*rows)
    idle_w = float(Twin(Cluster("c", (nodes(2, 4),)), workload, EASY).state.clock[0].power_w)
    case = Case([nodes(2, 4)], workload, EASY, budget_w=idle_w + 1000)
    assert case.why(1).token == "power-budget"
    assert case.runs(2)  # beside the first, on a node that is not kept
    case = Case([nodes(1, 4)], jobs((0, 100, 1), (0, 50, 3), (0, 300, 1)), EASY,
                budget_w=idle_w / 2 + 800)  # fmt: skip
    found = case.why(2)
    assert found.token == "would-delay-head"
    assert "a0 is kept for j1, which has its devices and waits for the power budget" in (
        found.sentence
    )
    assert found.remedy == "Wait until the first has started."


# Held ------------------------------------------------------------------------------


@pytest.mark.nojit
def test_waits_for_jobs() -> None:
    after = {"after_job": np.array([1, 1]), "after_on": np.array([0, 2])}
    case = Case([nodes(1, 4)], jobs((0, 100, 1), (0, 50, 1), (500, 5, 1), **after), SKIP)
    found = case.why(1)
    assert found.token == "waits-for-jobs"
    assert found.sentence == (
        "Waits for the end of 2 jobs: j0 (running, expected to end in about 100 s) and "
        "j2 (not submitted yet)."
    )
    assert found.remedy == "Wait for them; or drop its `after`: it would start now on a0."
    assert found.numbers["waits_for"] == ["j0", "j2"]
    none = np.zeros(0, np.int64)
    assert case.changed(workload=replace(case.arguments[1], after_job=none, after_on=none)).runs(1)
    later = case.changed(at_s=100).why(1)
    assert later.numbers["waits_for"] == ["j2"]


def test_waits_for_jobs_that_will_not_be_missed() -> None:
    after = {"after_job": np.array([2]), "after_on": np.array([0])}
    case = Case([nodes(1, 1)], jobs((0, 100, 1), (0, 50, 1), (0, 5, 1), **after), STRICT)
    found = case.why(2)
    assert found.numbers["expected_in_s"] == 100
    assert found.remedy == "Wait for them; without `after` it would wait in the queue instead."


def test_array_limit() -> None:
    workload = jobs(*[(0, 100, 1)] * 5, group=0, group_limits=(2,))
    case = Case([nodes(1, 3)], workload, SKIP)
    found = case.why(3)
    assert found.token == "array-limit"
    assert found.sentence == (
        "Its array lets 2 tasks pend or run at a time: 2 running, 0 pending, 1 held before it."
    )
    assert found.numbers["limit_needed"] == 4
    wider = case.changed(workload=replace(workload, group_limits=(4,)))
    assert wider.twin.state.runs[3].status == Status.PENDING
    assert case.changed(workload=replace(workload, group_limits=(3,))).why(3).token == found.token


def test_jobs_that_do_not_wait() -> None:
    case = Case([nodes(2, 4)], jobs((0, 30, 1), (0, 200, 8), (900, 5, 1)), SKIP, 60)
    assert [case.why(each).token for each in range(3)] == ["ended", "running", "not-submitted"]
    assert case.why(1).sentence == (
        "Does not wait: runs on a0 and a1 for 0 s, expected to end in about 3.3 min by its "
        "estimate."
    )
    assert case.why(2).sentence == "Is not submitted yet; that is in 14.5 min."
    assert case.twin.now_us == to_us(30)  # what is explained is the last decision


# Rounds ------------------------------------------------------------------------------

SRTF = get_policy("srtf").knobs


@pytest.mark.nojit
def test_waits_for_round() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 100, 1)), SRTF, 10)
    found = case.why(1)
    assert found.token == "waits-for-round"
    assert found.sentence == (
        "May not start now, but may take the devices of j0 in the next round, in 50 s."
    )
    assert not case.changed(at_s=59).runs(1)
    assert case.changed(at_s=60).runs(1)


@pytest.mark.nojit
def test_not_far_enough_ahead() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 900, 1)), SRTF, 10)
    found = case.why(1)
    assert found.token == "not-far-enough-ahead"
    assert found.sentence == (
        "No room; of the 1 job running there 1 comes after it, the furthest by 40 s of estimated "
        "work left, and gives way only for more than 60 s (margin_s)."
    )
    assert not case.changed(at_s=60).runs(1)
    assert case.with_knobs(margin_s=39.0).changed(at_s=60).runs(1)


def test_not_far_enough_for_lack_of_devices() -> None:
    rows = ((0, 1000, 2), (0, 20, 2), (10, 100, 4))
    case = Case([nodes(1, 4)], jobs(*rows), replace(SRTF, round_s=15.0, margin_s=0.0), 10)
    found = case.why(2)
    assert found.token == "not-far-enough-ahead"
    assert "1 may give way to it, but that leaves at most 2 devices free on one node" in (
        found.sentence
    )


def test_not_far_enough_while_the_other_is_young() -> None:
    rows = ((0, 20, 1), (20, 1000, 1), (30, 100, 1))
    case = Case([nodes(1, 1)], jobs(*rows), SRTF, 30)
    found = case.why(2)
    assert found.token == "not-far-enough-ahead"
    assert "not before they have run for 60 s" in found.sentence
    assert found.numbers["too_young"] == 1


def test_not_far_enough_where_service_counts() -> None:
    knobs = get_policy("las").knobs
    rows = ((0, 50, 1), (1, 1e5, 2), (2, 1e5, 1))
    case = Case([nodes(1, 2)], jobs(*rows), knobs, 60)
    found = case.why(1)
    assert found.token == "not-far-enough-ahead"
    assert "none is demoted below it; that takes 60.0 min of device time" in found.sentence
    assert not case.changed(at_s=3600).runs(1)
    assert case.changed(at_s=3660).runs(1)  # the round after the other has had its hour


def test_no_free_devices_behind_all_that_run() -> None:
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 5000, 1)), SRTF, 10)
    found = case.why(1)
    assert found.token == "no-free-devices"
    assert "the 1 job running there comes before it" in found.sentence
    assert found.remedy == "Wait for running jobs to end."


def test_next_decision() -> None:
    twin = Twin(Cluster("c", (nodes(1, 1),)), jobs((0, 1000, 1), (10, 100, 1)), SKIP)
    run: Any = twin.state.runs[0]
    run.status = Status.PENDING  # as if it came after the last decision
    for knobs, word in ((SKIP, "looks at it."), (SRTF, "in 60 s at the latest.")):
        found = explain(twin.state, knobs, 0)
        assert found.token == "next-decision"
        assert found.sentence == "Fits now on p0-0: room came free in or after the last decision."
        assert found.remedy.endswith(word)


# All of them ---------------------------------------------------------------------------


def test_explain_pending_goes_by_the_order() -> None:
    knobs = Knobs(order=Order.SHORTEST)
    after = {"after_job": np.array([1]), "after_on": np.array([0])}
    rows = ((0, 5, 4), (0, 5, 1), (0, 90, 4), (0, 30, 4))
    case = Case([nodes(1, 4)], jobs(*rows, **after), knobs)
    found = explain_pending(case.twin.state, knobs, case.names)
    assert [each.job for each in found] == [3, 2, 1]
    assert found[0] == case.why(3)
    assert found[1].numbers["place"] == 2


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_every_waiting_job_has_a_reason(problem: Problem, part: float) -> None:
    twin = _stopped(problem, part)
    before, jobs_before = twin.state.arena.tobytes(), twin.state.jobs.tobytes()
    names = Names.of(problem.workload.ids.tolist(), problem.cluster.groups)
    found = explain_pending(twin.state, twin.knobs, names)
    status = twin.state.runs.status
    waiting = np.flatnonzero((status == Status.HELD) | (status == Status.PENDING))
    assert sorted(each.job for each in found) == waiting.tolist()
    for each in found:
        assert each.token in TOKENS
        assert each.sentence.endswith(".") and each.remedy.endswith(".")
    # Nothing was changed, and true durations were not looked at.
    assert twin.state.arena.tobytes() == before
    assert twin.state.jobs.tobytes() == jobs_before
    assert explain_pending(twin.snapshot(), twin.knobs, names) == found


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_what_is_expected_of_the_next_round_comes_true(problem: Problem, part: float) -> None:
    if problem.knobs.preempt != Preempt.ROUNDS:
        problem = replace(problem, knobs=replace(SRTF, order=problem.knobs.order))
    twin = _stopped(problem, part)
    every = to_us(problem.knobs.round_s)
    next_round_us = (twin.now_us // every + 1) * every
    found = explain_pending(twin.state, twin.knobs)
    arrivals, ends = (int(twin.state.clock[0][each]) for each in ("arrivals", "ends"))
    failures, repairs = (int(twin.state.clock[0][each]) for each in ("failures", "repairs"))
    if twin.next_us != next_round_us:
        return
    twin.run(next_round_us)
    clock = twin.state.clock[0]
    if (clock.arrivals, clock.ends, clock.failures, clock.repairs) != (
        arrivals, ends, failures, repairs,
    ):  # fmt: skip
        return
    for each in found:
        starts = bool(twin.state.runs[each.job].status == Status.RUNNING)
        assert starts == (each.token in ("waits-for-round", "next-decision"))


@given(problems(most=12), st.floats(0.0, 1.0))
@settings(max_examples=150, deadline=None)
def test_expected_starts_hold_if_estimates_do(problem: Problem, part: float) -> None:
    """With exact estimates, all up: the strict head starts when expected, nobody before."""
    backfill = problem.knobs.backfill if problem.knobs.preempt == Preempt.NEVER else Backfill.SKIP
    size = len(problem.workload)
    exact = replace(
        problem.workload, estimate_us=np.full(size, np.nan), limit_us=np.zeros(size, np.int64)
    )
    problem = Problem(
        replace(problem.cluster, power_budget_w=0.0),
        exact,
        replace(problem.knobs, preempt=Preempt.NEVER, backfill=backfill, sleep_s=-1.0),
        Effects(),
    )
    twin = _stopped(problem, part)
    now_us = twin.now_us
    found = [
        each
        for each in explain_pending(twin.state, twin.knobs)
        if "expected_in_s" in each.numbers and each.token != "waits-for-jobs"
    ]
    arrived = twin.state.clock[0].next_job
    twin.run()
    for each in found:
        wait_s = to_s(int(twin.state.runs[each.job].first_start_us) - now_us)
        assert wait_s >= each.numbers["expected_in_s"]
        alone = arrived == size and not len(exact.after_job) and not exact.group_limits
        if alone and "expected to start" in each.remedy and backfill == Backfill.STRICT:
            assert wait_s == each.numbers["expected_in_s"]


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
    said = {reason_token(each): reason_text(each, case.names, 0) for each in plan}
    assert said == {
        "in-order": "J0 is next in the queue's order and fits.",
        "kept-for-head": (
            "Kept for j1, the first that does not fit, which is expected to start in about 100 s."
        ),
        "backfilled": "J2 fits and is not expected to delay the first job that waits.",
    }
    case = case.with_knobs(backfill=Backfill.SKIP)
    plan = case.twin.state.plan[: case.twin.state.clock[0].actions]
    assert [reason_token(each) for each in plan] == ["in-order", "skipped-ahead"]
    assert reason_text(plan[1]) == "#2 fits, and a job before it does not."
    case = Case([nodes(1, 1)], jobs((0, 1000, 1), (10, 100, 1)), SRTF, 60)
    plan = case.twin.state.plan[: case.twin.state.clock[0].actions]
    assert [reason_token(each) for each in plan] == ["gave-way", "made-room"]
    assert "by 14.0 min" in reason_text(plan[0])
    assert "took their devices" in reason_text(plan[1])
    assert {each.name.lower().replace("_", "-") for each in Reason} == {
        "in-order", "skipped-ahead", "backfilled", "made-room", "gave-way", "kept-for-head",
    }  # fmt: skip


def test_names_where_none_are_given() -> None:
    case = Case([nodes(1, 4), nodes(1, 1, "T4", "b")], jobs((0, 100, 4), (0, 50, 4)), SKIP)
    found = explain(case.twin.state, SKIP, 1)
    assert found.sentence == "Needs 4 of the 4 devices it can run on (pool 0); none is free."
