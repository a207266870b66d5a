"""Jobs that choose their nodes: by type of device, by features, by number."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.control.live_cases import ONE_NODE, Rig, spec_of

from flyball.control.jobs.node_choice import ANY, NodeChoice, pools_of
from flyball.control.jobs.request import cluster_of, nodes_of
from flyball.core.errors import BadInput
from flyball.core.events import Opened
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode

MIXED = (
    LiveNode("v", "V100", 2, 16, 65_536),
    LiveNode("t1", "T4", 2, 16, 65_536, features=("nvme",)),
    LiveNode("t2", "T4", 2, 16, 65_536, features=("nvme", "ib")),
)


def refusal(cluster: tuple[LiveNode, ...], **asked: object) -> str:
    with pytest.raises(BadInput) as refused:
        NodeChoice(cluster).check(spec_of(**asked))
    return str(refused.value)


def test_types_and_features_select_pools() -> None:
    choice = NodeChoice(MIXED)
    assert choice.pools(spec_of(gpus=1)) == ANY
    assert choice.pools(spec_of(gpus=1, device_type="V100")) == 0b001
    assert choice.pools(spec_of(gpus=1, device_type="nvidia_tesla-t4")) == 0b110
    assert choice.pools(spec_of(gpus=1, features=("ib",))) == 0b100
    assert choice.pools(spec_of(gpus=1, features=("nvme",), device_type="t4")) == 0b110


def test_nodes_with_other_features_are_another_pool() -> None:
    alike = (*MIXED, LiveNode("t3", "T4", 2, 16, 65_536, features=("nvme", "ib")))
    assert [len(pool) for pool in pools_of(alike)] == [1, 1, 2]
    assert [group.count for group in cluster_of(alike, "x").groups] == [1, 1, 2]


def test_what_no_node_has_is_refused_with_what_there_is() -> None:
    types = refusal(MIXED, gpus=1, device_type="h100")
    assert types == "no node has devices of type 'h100'; leave the type out, or use V100 or T4"
    feature = refusal(MIXED, features=("nvme", "gold"))
    assert feature.startswith("no node has the feature 'gold'; leave out --constraint; nodes have")
    assert "no node declares any" in refusal(ONE_NODE, features=("nvme",))
    assert "all of the features and the type" in refusal(
        MIXED, gpus=1, device_type="V100", features=("nvme",)
    )
    assert refusal(ONE_NODE, nodes=4) == "4 nodes requested, and there is only one node; use -N 1"
    assert refusal(MIXED, nodes=4) == "4 nodes requested, and there are only 3; use -N 3"
    NodeChoice(MIXED).check(spec_of(nodes=3))


def test_jobs_run_only_where_they_chose(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "fifo-skip", nodes=MIXED)
    jobs = [rig.submit(gpus=1, cpus=1, device_type="t4", features=("ib",)) for _ in range(3)]
    other_type = rig.submit(gpus=2, cpus=1, device_type="V100")
    rig.settle()
    assert [rig.job(job).rows[0].node for job in jobs[:2]] == [2, 2]
    assert rig.states(jobs[2]) == [JobState.PENDING], "both of its node's devices are taken"
    assert rig.job(other_type).rows[0].node == 0
    rig.finish()
    assert rig.states(*jobs, other_type) == [JobState.COMPLETED] * 4
    verdict = rig.verdict()
    assert verdict.decisions > 0
    assert verdict.differing == []


def test_nodes_keep_their_features_in_the_journal(tmp_path: Path) -> None:
    rig = Rig(tmp_path, nodes=MIXED)
    opened = rig.events()[0][1]
    assert isinstance(opened, Opened)
    assert nodes_of(opened) == list(MIXED)
    featureless = [
        {name: value for name, value in node.items() if name != "features"} for node in opened.nodes
    ]
    old = replace(opened, nodes=featureless)
    assert [node.features for node in nodes_of(old)] == [(), (), ()]


def test_after_a_restart_jobs_wait_for_absent_nodes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, nodes=MIXED)
    holder = [rig.submit(gpus=2, cpus=1, device_type="t4") for _ in range(2)]
    waiting = rig.submit(gpus=1, cpus=1, device_type="t4")
    rig.settle()
    assert rig.states(*holder, waiting) == [*[JobState.RUNNING] * 2, JobState.PENDING]
    rig.plane.close()
    rig.engine.nodes_ = MIXED[:1]
    rig.open()
    assert rig.states(waiting) == [JobState.PENDING]
    rig.finish()
    assert rig.states(waiting) == [JobState.PENDING]
    assert [node["state"] for node in rig.plane.ask.nodes()].count("absent") == len(MIXED) - 1
    rig.engine.nodes_ = MIXED
    rig.finish()
    assert rig.states(waiting) == [JobState.COMPLETED]
