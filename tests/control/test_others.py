"""Jobs of others on our nodes: what they have is left to them, and used once they are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import Rig

from flyball.core.events import OthersChanged
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode

NODES = (LiveNode("a", "CPU1", 4, 4, 8192), LiveNode("b", "CPU1", 4, 4, 8192))
GPU_NODES = (
    LiveNode("a", "A100", 2, 8, 8192, ("a:0", "a:1")),
    LiveNode("b", "A100", 2, 8, 8192, ("b:0", "b:1")),
)


def placed(rig: Rig, *jobs: int) -> list[tuple[int, int]]:
    """Where jobs run, and on how many devices; those that wait are left out."""
    rows = [row for job in jobs for row in rig.job(job).rows]
    return [(row.node, row.mask.bit_count()) for row in rows]


def test_cores_that_others_have_are_left_to_them_and_come_back(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=NODES)
    rig.engine.give_others(0, devices=3, cores=3)
    rig.engine.give_others(1, devices=1, cores=1)
    jobs = [rig.submit(cpus=cpus, estimate_s=300.0) for cpus in (3, 1, 1)]
    rig.pass_s(2)
    assert sorted(placed(rig, *jobs)) == [(0, 1), (1, 3)]
    (waiting,) = [job for job in jobs if rig.job(job).state == JobState.PENDING]
    answer = rig.plane.ask.why(waiting)
    assert "jobs outside this queue have 4" in answer["sentence"], answer["sentence"]
    first, second = rig.plane.ask.nodes()
    assert first["others"] == {"devices": 3, "cpus": 3, "memory_mib": 0}
    assert (first["used"], second["used"], first["up"]) == (1, 3, True)
    rig.engine.give_others(0)
    rig.pass_s(2)
    assert rig.job(waiting).state == JobState.RUNNING
    rig.finish()
    assert rig.states(*jobs) == [JobState.COMPLETED] * 3
    assert rig.verdict().differing == []


def test_a_reservation_does_not_count_on_what_others_have(tmp_path: Path) -> None:
    """A job that fits nowhere while others have a node holds no node back."""
    rig = Rig(tmp_path, "easy", nodes=NODES)
    rig.engine.give_others(0, devices=2, cores=2)
    rig.engine.give_others(1, devices=2, cores=2)
    large = rig.submit(cpus=4, estimate_s=300.0)
    small = [rig.submit(cpus=2, estimate_s=300.0) for _ in range(2)]
    rig.pass_s(2)
    assert sorted(placed(rig, *small)) == [(0, 2), (1, 2)]
    assert rig.job(large).state == JobState.PENDING
    rig.engine.give_others(1)
    rig.finish()
    assert rig.states(large, *small) == [JobState.COMPLETED] * 3
    assert rig.verdict().differing == []


@pytest.mark.parametrize(
    ("others", "asked"),
    [
        ({"devices": 1}, {"gpus": 2, "cpus": 1}),
        ({"cores": 7}, {"gpus": 1, "cpus": 2}),
        ({"memory_mib": 8000}, {"gpus": 1, "memory_mib": 1000}),
        ({"cores": 8, "memory_mib": 9000}, {"cpus": 1}),
    ],
)
def test_gpus_cores_and_memory_each_count(
    tmp_path: Path, others: dict[str, int], asked: dict[str, Any]
) -> None:
    rig = Rig(tmp_path, "easy", nodes=GPU_NODES)
    rig.engine.give_others(0, **others)
    jobs = [rig.submit(estimate_s=100.0, **asked) for _ in range(9)]
    rig.pass_s(2)
    assert {node for node, _count in placed(rig, *jobs)} <= {1}
    starts = [job for job in jobs if rig.job(job).state == JobState.RUNNING]
    assert 0 < len(starts) < len(jobs)
    rig.finish()
    assert rig.verdict().differing == []


def test_another_control_plane_sees_them_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=NODES)
    for node in range(2):
        rig.engine.give_others(node, devices=4, cores=4, memory_mib=100)
    rig.settle()
    rig.plane.close()
    rig.open()
    job = rig.submit(cpus=1)
    rig.pass_s(5)
    assert rig.job(job).state == JobState.PENDING
    events = [event for _seq, event in rig.events() if isinstance(event, OthersChanged)]
    assert [event.nodes for event in events] == [[[0, 4, 4, 100], [1, 4, 4, 100]]] * 2
    rig.engine.give_others(1, devices=3, cores=3)
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []
