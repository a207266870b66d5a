"""Nodes that go down and come up: on record, respected by decisions, and repeatable."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.core.errors import BadInput, NotFound
from flyball.core.events import Intended, NodeChanged
from flyball.core.jobs import JobState, Row
from flyball.core.live import LiveNode

NODES = (LiveNode("a", "CPU1", 4, 4, 8192), LiveNode("b", "CPU1", 4, 4, 8192))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, "easy", nodes=NODES)


def changes(rig: Rig) -> list[tuple[int, bool]]:
    events = [event for _seq, event in rig.events()]
    return [(event.node, event.up) for event in events if isinstance(event, NodeChanged)]


def nodes_up(rig: Rig) -> list[bool]:
    return [node["up"] for node in rig.plane.ask.nodes()]


def test_a_job_on_a_failed_node_starts_again_elsewhere(rig: Rig) -> None:
    job = rig.submit(cpus=2, estimate_s=300.0)
    rig.pass_s(10)
    (row,) = rig.job(job).rows
    rig.engine.take_down(row.node)
    rig.pass_s(10)
    assert (rig.job(job).attempt, rig.job(job).failures) == (2, 1)
    assert rig.job(job).rows == (Row(1 - row.node, row.mask),)
    assert changes(rig) == [(row.node, False)]
    assert nodes_up(rig)[row.node] is False
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []


def test_jobs_wait_for_a_node_and_start_when_it_is_back(rig: Rig) -> None:
    for node in range(2):
        rig.engine.take_down(node)
    job = rig.submit(cpus=4)
    rig.pass_s(60)
    assert rig.engine.launched == []
    rig.engine.bring_up(1)
    rig.pass_s(1)
    assert rig.job(job).rows == (Row(1, 15),)
    assert changes(rig) == [(0, False), (1, False), (1, True)]
    assert nodes_up(rig) == [False, True]
    rig.finish()
    assert rig.verdict().differing == []


def test_a_decision_sees_a_change_that_is_recorded_with_it(rig: Rig) -> None:
    rig.submit(cpus=1, estimate_s=300.0)
    rig.settle()
    rig.submit(cpus=4)
    rig.submit(cpus=4)
    rig.engine.take_down(0)
    rig.engine.take_down(1)
    rig.plane.step()
    assert [job for job, _attempt in rig.engine.launched] == [1], "the others have no node"
    rig.settle()
    assert rig.verdict().differing == []


def test_another_control_plane_finds_out_again(rig: Rig) -> None:
    rig.engine.take_down(0)
    rig.settle()
    rig.plane.close()
    rig.open()
    assert nodes_up(rig) == [False, True]
    job = rig.submit(cpus=4)
    rig.pass_s(1)
    assert rig.job(job).rows == (Row(1, 15),)
    assert changes(rig) == [(0, False), (0, False)]
    rig.engine.bring_up(0)
    rig.settle()
    assert nodes_up(rig) == [True, True]
    rig.finish()
    assert rig.verdict().differing == []


def test_nodes_come_and_go_while_jobs_run(rig: Rig) -> None:
    long = rig.submit(cpus=4, estimate_s=600.0)
    rig.pass_s(1)
    (row,) = rig.job(long).rows
    rig.engine.add(LiveNode("c", "CPU1", 8, 8, 16384))
    rig.settle()
    wide = rig.submit(cpus=4), rig.submit(cpus=4, memory_mib=16000)
    rig.pass_s(1)
    assert [rig.job(job).rows for job in wide] == [(Row(1 - row.node, 15),), (Row(2, 15),)]
    gone = rig.engine.remove("ab"[1 - row.node])
    rig.pass_s(1)
    assert rig.job(wide[0]).rows[0].node == 2, "it was lost, and there is room on c"
    assert [node["state"] for node in rig.plane.ask.nodes()].count("absent") == 1
    rig.engine.add(gone)
    rig.pass_s(1)
    assert nodes_up(rig) == [True, True, True], "under the same place"
    assert [node["name"] for node in rig.plane.ask.nodes()] == ["a", "b", "c"]
    rig.finish()
    assert rig.states(long, *wide) == [JobState.COMPLETED] * 3
    assert rig.verdict().differing == []


def test_a_drained_node_takes_no_jobs_until_it_is_resumed(rig: Rig) -> None:
    running = rig.submit(cpus=4, estimate_s=50.0)
    rig.pass_s(1)
    name = "ab"[rig.job(running).rows[0].node]
    rig.plane.drain(name, "a fan is loud", "ada")
    others = [rig.submit(cpus=4, estimate_s=20.0) for _ in range(3)]
    rig.pass_s(5)
    rig.plane.close()
    rig.open()
    (view,) = (node for node in rig.plane.ask.nodes() if node["name"] == name)
    assert (view["state"], view["reason"], view["up"]) == ("drained", "a fan is loud", False)
    rig.finish()
    places = {span["nodes"] for job in others for span in spans(rig, job)}
    assert rig.states(running, *others) == [JobState.COMPLETED] * 4
    assert name not in places, "none of the others ran there"
    rig.plane.resume(name)
    rig.settle()
    assert nodes_up(rig) == [True, True]
    assert rig.verdict().differing == []
    with pytest.raises(NotFound):
        rig.plane.drain("nowhere", "")


def spans(rig: Rig, job: int) -> list[dict[str, str]]:
    """Where the attempts of a job were intended to run."""
    names = [node["name"] for node in rig.plane.ask.nodes()]
    intended = [event for _seq, event in rig.events() if isinstance(event, Intended)]
    return [{"nodes": names[event.rows[0][0]]} for event in intended if event.job == job]


def test_gpus_and_cores_are_apart_in_a_mixed_cluster(tmp_path: Path) -> None:
    mixed = (LiveNode("cpu", "CPU1", 32, 32, 65536), LiveNode("gpu", "V100", 4, 16, 65536))
    rig = Rig(tmp_path, "easy", nodes=mixed)
    with pytest.raises(BadInput, match="16"):
        rig.submit(gpus=16)
    with pytest.raises(BadInput, match="cores only"):
        rig.submit(gpus=1, device_type="CPU1")
    job, wide = rig.submit(gpus=4), rig.submit(cpus=32)
    rig.pass_s(1)
    assert [row.node for row in rig.job(job).rows] == [1]
    assert [row.node for row in rig.job(wide).rows] == [0]
    rig.finish()
    assert rig.states(job, wide) == [JobState.COMPLETED] * 2
    assert rig.verdict().differing == []


def test_a_short_outage_between_two_cycles_costs_jobs_an_attempt(rig: Rig) -> None:
    job = rig.submit(cpus=2, estimate_s=300.0)
    rig.pass_s(1)
    rig.engine.take_down(0)
    rig.engine.bring_up(0)
    rig.pass_s(1)
    assert changes(rig) == [], "it was back before anybody looked"
    assert rig.job(job).attempt == 2, "but the job was lost"
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]


def test_a_launch_on_a_node_that_just_failed_is_lost(rig: Rig) -> None:
    job = rig.submit(cpus=2)
    rig.at_point["recorded"] = lambda: rig.engine.take_down(0)
    rig.finish()
    assert rig.engine.launched == [(job, 1), (job, 2)]
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []
