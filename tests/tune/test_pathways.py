"""Pathways: chosen by class or by name, carried out as settings and as changes of jobs."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import UnknownName
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.workload import JobClass, Workload
from flyball.schedule.policies.registry import get_policy
from flyball.tune.pathways import (
    ALONE,
    Change,
    Pathway,
    choose,
    fetched_first,
    leading,
    pathway_of,
    pipelined,
    prepare,
    settings,
)
from flyball.tune.share import Share
from flyball.twin.twin import Twin

PIPELINE = int(Pathway.PIPELINE)
CHANGES = {pathway: settings(pathway).change for pathway in Pathway}


def test_every_class_has_its_pathway() -> None:
    pathways = {kind: pathway_of(kind) for kind in JobClass}
    assert pathways == {
        JobClass.COMPUTE_INTENSIVE: Pathway.SPATIAL,
        JobClass.MEMORY_BOUND: Pathway.TEMPORAL,
        JobClass.LATENCY_SENSITIVE: Pathway.PRIORITY,
        JobClass.BANDWIDTH_LIMITED: Pathway.PIPELINE,
        JobClass.MIXED: Pathway.HYBRID,
    }


def test_a_job_may_ask_for_another() -> None:
    assert pathway_of(JobClass.MIXED, "Temporal") == Pathway.TEMPORAL
    with pytest.raises(UnknownName, match="spatial"):
        pathway_of(JobClass.MIXED, "spatiall")
    kinds = np.array([0, 1, 4])
    assert choose(kinds).tolist() == [0, 1, 4]
    assert choose(kinds, [None, "hybrid", "priority"]).tolist() == [0, 4, 2]


@pytest.mark.parametrize("pathway", list(Pathway))
def test_settings_go_with_the_common_knobs(pathway: Pathway) -> None:
    """They are accepted by the kernel and by the twin, with the sharing they ask for."""
    setting = settings(pathway)
    knobs = setting.apply(get_policy("easy").knobs)
    cluster = Cluster("c", (NodeGroup("n", 1, "V100", 4),))
    Twin(cluster, Workload.of("w", [0.0], 1.0), knobs, Effects(share_limit=setting.together))
    assert setting.tuners or setting.knobs


def test_knobs_of_the_pathways() -> None:
    common = get_policy("easy").knobs
    temporal = settings(Pathway.TEMPORAL).apply(common)
    assert (temporal.order, temporal.preempt) == (Order.ATTAINED, Preempt.ROUNDS)
    priority = settings(Pathway.PRIORITY).apply(common)
    assert priority.order == common.order
    assert priority.preempt == Preempt.ROUNDS
    assert priority.margin_s < priority.priority_s  # a level of priority preempts others
    assert settings(Pathway.SPATIAL).together == 2
    assert settings(Pathway.SPATIAL).apply(common) == common


def test_classes_whose_jobs_do_not_share_are_left_alone_whichever_pathway_leads() -> None:
    alone = {kind for kind in JobClass if settings(pathway_of(kind)).change.together == 1}
    assert set(ALONE) == alone
    shares = [t for p in Pathway for t in settings(p).tuners if isinstance(t, Share)]
    assert len(shares) == 2
    assert all(set(tuner.alone) == alone for tuner in shares)


def test_the_pathway_with_a_majority_leads() -> None:
    pathways = np.array([0, 1, 2])
    assert leading(pathways, np.array([6.0, 3.0, 2.0])) == Pathway.SPATIAL
    assert leading(pathways, np.array([5.0, 3.0, 2.0])) == Pathway.HYBRID


def test_prepare_changes_each_job_by_its_own_pathway() -> None:
    kinds = [JobClass.LATENCY_SENSITIVE, JobClass.MIXED, JobClass.MEMORY_BOUND, JobClass.MIXED]
    most = [0, 0, 0, 4]
    workload = Workload.of(
        "w", np.zeros(4), 1.0, 1, kind=kinds, priority=[0, 2, 0, 0], least=[0, 0, 0, 1], most=most
    )
    changed = prepare(workload, choose(workload.kind), CHANGES)
    assert changed.priority.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert changed.most.tolist() == [0, -1, 0, 4]  # what a job states of itself stays
    same = prepare(workload, choose(workload.kind), {})
    assert same.priority.tolist() == workload.priority.tolist()
    assert same.most.tolist() == most


# Pipelines ------------------------------------------------------------------------------


def test_how_much_must_be_fetched_first() -> None:
    assert fetched_first(0.0, 8) == 0.0
    assert fetched_first(0.3, 8) == 1 / 8
    assert fetched_first(0.3, 1) == 1.0
    assert fetched_first(0.8, 8) == pytest.approx(0.75)


def chained(chunks: int, devices: list[int], transfer: float = 0.4) -> tuple[list[float], Twin]:
    """When jobs of 1000 s end on one node of four devices, transfers apart."""
    size = len(devices)
    workload = Workload.of("w", np.zeros(size), 1000.0, devices, kind=int(JobClass.MIXED))
    changes = {Pathway.PIPELINE: Change(chunks=chunks)}
    pathways = np.full(size, PIPELINE)
    expanded, place = pipelined(workload, pathways, np.full(size, transfer), changes)
    twin = Twin(Cluster("c", (NodeGroup("n", 1, "V100", 4),)), expanded, Knobs())
    twin.run()
    return (twin.state.runs.end_us[place] / 1e6).tolist(), twin


def test_transfer_overlaps_compute() -> None:
    """400 s of data in 4 chunks: 100 s, then 600 s of compute while the rest comes."""
    ends, twin = chained(4, [2])
    assert ends == [pytest.approx(700.0)]
    assert sorted((twin.state.runs.end_us / 1e6).tolist()) == pytest.approx([100.0, 400.0, 700.0])


def test_much_transfer_ends_with_the_compute() -> None:
    """800 s of data: 600 s first, then the last 200 s come while the job computes for 200 s."""
    ends, twin = chained(8, [2], transfer=0.8)
    assert ends == [pytest.approx(800.0)]
    assert sorted((twin.state.runs.end_us / 1e6).tolist()) == pytest.approx([600.0, 800.0, 800.0])


def test_all_first_is_no_faster_for_a_job_alone() -> None:
    assert chained(1, [2])[0] == [pytest.approx(1000.0)]
    assert chained(0, [2])[0] == [pytest.approx(1000.0)]


def test_devices_are_not_held_while_data_comes() -> None:
    """Two jobs of all four devices: the second one's data is there when the first ends."""
    assert chained(4, [4, 4])[0] == pytest.approx([700.0, 1300.0])
    assert chained(0, [4, 4])[0] == pytest.approx([1000.0, 2000.0])


def test_a_transfer_waits_for_what_its_job_waits_for() -> None:
    workload = Workload.of(
        "w", [0.0, 0.0], [50.0, 1000.0], 1, after_job=np.array([1]), after_on=np.array([0])
    )
    pathways = np.array([0, PIPELINE])
    expanded, place = pipelined(workload, pathways, np.array([0.4, 0.4]), CHANGES)
    assert sorted(expanded.ids.tolist()) == ["j0", "j1", "j1.fetch", "j1.rest"]
    assert [str(expanded.ids[row]) for row in place] == ["j0", "j1"]
    twin = Twin(Cluster("c", (NodeGroup("n", 1, "V100", 4),)), expanded, Knobs())
    twin.run()
    assert twin.state.runs.end_us[place[1]] / 1e6 == pytest.approx(50.0 + 400.0 / 8 + 600.0)


def test_the_work_is_the_same() -> None:
    workload = Workload.of("w", [0.0, 5.0], [100.0, 200.0], [2, 1], estimate_us=[1e8, np.nan])
    transfer = np.array([0.25, 0.6])
    expanded, place = pipelined(workload, np.full(2, PIPELINE), transfer, CHANGES)
    total = {str(name).split(".")[0]: 0.0 for name in expanded.ids}
    for name, time_us in zip(expanded.ids, expanded.duration_us, strict=True):
        total[str(name).split(".")[0]] += time_us / 1e6
    assert total == pytest.approx({"j0": 100.0, "j1": 200.0})
    assert expanded.devices[place].tolist() == [2, 1]
    assert expanded.devices.sum() == 3
    assert expanded.estimate_us[place[0]] == pytest.approx(0.75e8)
