"""Jobs that wait for room, or are not considered."""

from __future__ import annotations

import pytest
from tests.schedule.explain_cases import (
    GIB,
    SKIP,
    STRICT,
    Case,
    jobs,
    nodes,
)

from flyball.core.cluster import NodeGroup
from flyball.core.knobs import Backfill, Knobs, Order, Place, Span
from flyball.core.units import to_us

# No room ---------------------------------------------------------------------


@pytest.mark.nojit
def test_no_free_devices() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2)), SKIP)
    answer = case.why(1)
    assert answer.token == "no-free-devices"
    assert answer.sentence == "Needs 2 of the 4 GPUs; 1 is free."
    assert answer.remedy == (
        "Wait: not before about 100 s, by the running jobs' estimates; or ask for 1 GPU "
        "instead of 2: with the same estimate it would start now on a0."
    )
    assert answer.numbers == {
        "devices": 2, "place": 1, "queue": 1, "free": 1, "total": 4, "expected_in_s": 100.0,
    }  # fmt: skip
    assert not case.runs(1)
    assert case.with_job(1, devices=1).runs(1)
    assert case.changed(at_s=100).runs(1)


def test_the_first_in_a_strict_queue_has_an_expected_start() -> None:
    rows = ((0, 100, 2), (0, 70, 2), (0, 50, 3), (0, 10, 1))
    case = Case([nodes(1, 4)], jobs(*rows), STRICT)
    answer = case.why(2)
    assert answer.sentence == "Needs 3 of the 4 GPUs; none is free."
    assert "expected to start in about 100 s" in answer.remedy
    assert not case.changed(at_s=99).runs(2)
    assert case.changed(at_s=100).runs(2)


def test_only_pools_it_can_run_on_count() -> None:
    groups = [nodes(1, 2, "A100"), nodes(1, 4, "T4", "b")]
    workload = jobs((0, 100, 2), (0, 100, 4), (0, 50, 2), memory_mib=[60 * GIB, 0, 20 * GIB])
    answer = Case(groups, workload, SKIP).why(2)
    assert answer.token == "no-free-devices"
    assert answer.sentence == "Needs 2 of the 2 GPUs it can run on (A100); none is free."


@pytest.mark.nojit
def test_fragmented_over_nodes() -> None:
    case = Case([nodes(2, 4)], jobs((0, 100, 3), (0, 80, 3), (0, 50, 2)), SKIP)
    answer = case.why(2)
    assert answer.token == "fragmented"
    assert answer.sentence == "Needs 2 of the 8 GPUs; 2 are free, but at most 1 on one node."
    assert "ask for 1 GPU instead of 2" in answer.remedy
    assert "span=any" in answer.remedy
    assert answer.numbers["expected_in_s"] == 80
    assert answer.numbers["most_on_node"] == 1
    assert 0 < answer.numbers["spread_speed"] <= 1
    assert case.with_job(2, devices=1).runs(2)
    assert case.with_knobs(span=Span.ANY).runs(2)
    assert case.changed(at_s=80).runs(2)


@pytest.mark.parametrize(("first", "empty"), [(3, "none is empty"), (0, "1 node is empty")])
def test_fragmented_for_a_gang_larger_than_a_node(first: int, empty: str) -> None:
    spread = Knobs(place=Place.SPREAD)
    rows = [(0, 100, 3), (0, 100, 3), *([(0, 100, first)] if first else []), (0, 50, 9)]
    last = len(rows) - 1
    case = Case([nodes(3, 6), nodes(1, 1, "T4", "b")], jobs(*rows), spread)
    if first == 0:  # 6 and 3 would be enough; so take one more
        assert case.runs(last)
        case = case.with_job(last, devices=10)
    answer = case.why(last)
    assert answer.token == "fragmented"
    assert answer.sentence.endswith(f"a gang larger than a node takes empty nodes and {empty}.")
    smaller = int(answer.remedy.lower().split("ask for ")[1].split(" ")[0])
    assert case.with_job(last, devices=smaller).runs(last)
    assert not case.with_job(last, devices=smaller + 1).runs(last)


def test_fragmented_over_groups() -> None:
    groups = [nodes(1, 4), nodes(1, 4, "V100", "b")]
    case = Case(groups, jobs((0, 100, 2), (0, 90, 3), (0, 50, 3)), SKIP)
    answer = case.why(2)
    assert answer.token == "fragmented"
    assert "3 are free, but at most 2 of one group" in answer.sentence
    assert "span=any" not in answer.remedy
    assert case.with_job(2, devices=2).runs(2)


@pytest.mark.nojit
def test_no_suitable_devices_for_its_memory() -> None:
    groups = [nodes(1, 2, "A100"), nodes(1, 2, "T4", "b")]
    workload = jobs((0, 100, 2), (0, 50, 1), memory_mib=[60 * GIB, 20 * GIB], kind=0)
    case = Case(groups, workload, SKIP)
    answer = case.why(1)
    assert answer.token == "no-suitable-devices"
    assert answer.sentence == (
        "Needs 1 of the 2 GPUs it can run on (A100) with 20 GiB each, and 0 of these are "
        "free; there is room on T4, but T4 has 16 GiB."
    )
    assert "if 16 GiB are enough, say so: it would start now on b0" in answer.remedy
    assert answer.numbers["memory_at_most_gib"] == 16
    assert case.with_job(1, memory_mib=16 * GIB).runs(1)
    assert not case.with_job(1, memory_mib=16 * GIB + 1).runs(1)


@pytest.mark.nojit
def test_host_full() -> None:
    # Two nodes of 4 devices, 8 cores and 16 GiB: each has 2 devices free, and 2 and 3 cores.
    group = NodeGroup("a", 2, "V100", 4, cpus=8, memory_gib=16.0)
    workload = jobs(
        (0, 100, 2), (0, 80, 2), (0, 50, 2),
        cpu_milli=[6000, 5000, 4000], host_mib=[8 * GIB, 4 * GIB, 2 * GIB],
    )  # fmt: skip
    case = Case([group], workload, SKIP)
    answer = case.why(2)
    assert answer.token == "host-full"
    assert answer.sentence == (
        "Needs 4 cores and 2 GiB of a host; of the nodes with GPUs free for it in a none has "
        "that: at most 3 cores and 12 GiB."
    )
    assert "not before about 80 s" in answer.remedy
    assert "ask less of the host: without that it would start now on a0" in answer.remedy
    assert answer.numbers["most_cores_free"] == 3
    assert case.with_job(2, cpu_milli=3000).runs(2)
    assert not case.with_job(2, cpu_milli=3001).runs(2)
    assert not case.changed(at_s=79).runs(2)
    assert case.changed(at_s=80).runs(2)


def test_a_job_for_the_host_alone_waits_for_cores() -> None:
    group = NodeGroup("a", 1, "V100", 2, cpus=4, memory_gib=16.0)
    workload = jobs((0, 100, 1), (0, 50, 0), cpu_milli=[3000, 1500])
    case = Case([group], workload, SKIP)
    answer = case.why(1)
    assert answer.token == "host-full"
    assert answer.sentence == (
        "Needs 1.5 cores of a host; of the nodes in a none has that: at most 1 core and 16 GiB."
    )
    assert case.with_job(1, cpu_milli=1000).runs(1)


def test_no_suitable_devices_for_its_model() -> None:
    groups = [nodes(1, 2), nodes(1, 2, "K80", "b")]
    workload = jobs((0, 100, 2), (0, 50, 2), model=0, models=("ResNet-50:128",))
    answer = Case(groups, workload, SKIP).why(1)
    assert answer.token == "no-suitable-devices"
    assert "there is room on K80, but K80 does not run it" in answer.sentence
    assert answer.remedy.startswith("Wait: not before about 100 s")


def test_nodes_down() -> None:
    outages = ((10.0, 500.0, 1),)
    case = Case([nodes(2, 4)], jobs((0, 100, 4), (20, 50, 3)), SKIP, 20, outages=outages)
    answer = case.why(1)
    assert answer.token == "nodes-down"
    assert "1 of the 2 nodes is down (a1)" in answer.sentence
    assert answer.remedy == "Bring it back: it would then start at once."
    assert case.changed(outages=()).runs(1)


def test_nodes_down_only_if_they_would_help_this_job() -> None:
    outages = ((10.0, 500.0, 1),)
    workload = jobs((0, 100, 4), (20, 50, 3), (20, 50, 3))
    case = Case([nodes(2, 4)], workload, SKIP, 20, outages=outages)
    assert [case.why(job).token for job in (1, 2)] == ["nodes-down", "no-free-devices"]
    assert "1 node is down" in case.why(2).sentence
    assert [case.changed(outages=()).runs(job) for job in (1, 2)] == [True, False]


def test_nodes_down_if_the_others_could_never_hold_it() -> None:
    outages = ((10.0, 500.0, 1),)
    case = Case([nodes(2, 4)], jobs((0, 100, 4), (20, 50, 8)), SKIP, 20, outages=outages)
    answer = case.why(1)
    assert answer.token == "nodes-down"
    assert answer.remedy == "Bring it back."


@pytest.mark.nojit
def test_a_share_of_a_device() -> None:
    workload = jobs((0, 100, 1), (0, 50, 1), milli=[700, 500], memory_mib=[10 * GIB, 4 * GIB])
    case = Case([nodes(1, 1)], workload, SKIP)
    answer = case.why(1)
    assert answer.token == "no-free-devices"
    assert answer.sentence == ("Needs 0.5 of a GPU with 4 GiB; none of 1 has that much free.")
    assert answer.remedy.startswith("Ask for 0.3 of a GPU instead of 0.5: ")
    assert answer.numbers["share"] == 0.5
    assert case.with_job(1, milli=300).runs(1)
    assert not case.with_job(1, milli=301).runs(1)


def test_a_share_without_the_memory() -> None:
    workload = jobs((0, 100, 1), (0, 50, 1), milli=[300, 500], memory_mib=[10 * GIB, 8 * GIB])
    case = Case([nodes(1, 1)], workload, SKIP)
    assert "1 more has the share free, but not the memory" in case.why(1).sentence
    assert case.with_job(1, memory_mib=6 * GIB).runs(1)


# Not considered -----------------------------------------------------------------


@pytest.mark.nojit
def test_behind_head() -> None:
    case = Case([nodes(1, 4)], jobs((0, 100, 3), (0, 50, 2), (0, 20, 1), (0, 20, 2)), STRICT)
    answer = case.why(2)
    assert answer.token == "behind-head"
    assert answer.sentence == ("Number 2 of 3, behind j1, which needs 2 of the 4 GPUs; 1 is free.")
    assert "not before about 100 s" in answer.remedy
    assert "give it priority 1 or above: it would start now on a0" in answer.remedy
    assert answer.numbers["fits_now"]
    assert case.with_job(2, priority=1.0).runs(2)
    assert case.with_knobs(backfill=Backfill.SKIP).runs(2)
    assert case.why(1).token == "no-free-devices"
    behind = case.why(3)
    assert not behind.numbers["fits_now"]
    assert "priority" not in behind.remedy


def test_behind_head_of_the_shortest() -> None:
    knobs = Knobs(order=Order.SHORTEST, backfill=Backfill.STRICT)
    case = Case([nodes(1, 4)], jobs((0, 10, 3), (0, 50, 2), (0, 200, 1)), knobs)
    answer = case.why(2)
    assert answer.token == "behind-head"
    assert "an estimate of at most 49 s instead of 3.3 min would put it first" in answer.remedy
    at_most_us = to_us(answer.numbers["estimate_at_most_s"])
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
    answer = case.why(3)
    assert answer.token == "beyond-depth"
    assert answer.sentence == (
        "Would fit now on a0, but is number 3 in the queue and the scan stops after 2 jobs."
    )
    assert answer.numbers["depth_needed"] == 3
    assert case.with_knobs(depth=3).runs(3)
    assert "it would fit now on a0" in case.why(4).remedy  # not: start


def test_beyond_depth_counts_those_the_scan_started() -> None:
    rows = ((0, 100, 2), (0, 50, 4), (0, 20, 1), (0, 20, 1))
    case = Case([nodes(1, 4)], jobs(*rows), Knobs(backfill=Backfill.EASY, depth=2))
    answer = case.why(3)
    assert case.runs(2)
    assert answer.token == "beyond-depth"
    assert answer.numbers["depth_needed"] == 3
    assert case.with_knobs(depth=3).runs(3)
