"""Nodes whose jobs run far slower than their kind are drained, with the figures."""

from __future__ import annotations

from pathlib import Path

from tests.control.live_cases import Rig, env

from flyball.core.events import NodeChanged
from flyball.core.jobs import JobSpec
from flyball.core.live import LiveNode

NODES = tuple(LiveNode(name, "CPU1", 2, 2, 8192) for name in "abc")


def run_on_all(rig: Rig, slow: str, factor: float, rounds: int) -> None:
    """Run rounds of like jobs, one for each node; those on one node take longer."""
    course = rig.engine._course

    def slower(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
        run_s, code = course(spec, job, attempt)
        place = rig.plane.live_state.jobs[job].rows[0].node
        return run_s * (factor if NODES[place].name == slow else 1.0), code

    rig.engine._course = slower
    for _ in range(rounds):
        for _node in NODES:
            rig.submit(cpus=2, name="train", env=env(100.0), estimate_s=100.0)
        rig.finish()


def drained(rig: Rig) -> list[NodeChanged]:
    return [
        event for _seq, event in rig.events() if isinstance(event, NodeChanged) and not event.up
    ]


def test_a_node_with_slow_jobs_is_drained_and_says_why(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=NODES)
    run_on_all(rig, "b", 2.6, 9)
    (event,) = drained(rig)
    assert (event.name, event.state, event.who) == ("b", "drained", "flyball")
    assert event.reason is not None and "6 jobs took 2.6 times as long" in event.reason
    assert rig.verdict().differing == []


def test_nodes_that_differ_by_little_are_not(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=NODES)
    run_on_all(rig, "b", 1.6, 9)
    assert drained(rig) == []


def test_the_last_node_is_kept(tmp_path: Path) -> None:
    rig = Rig(tmp_path, "easy", nodes=NODES)
    run_on_all(rig, "b", 3.0, 4)
    rig.plane.drain("a", "")
    rig.plane.drain("c", "")
    run_on_all(rig, "b", 3.0, 3)
    assert {event.name for event in drained(rig)} == {"a", "c"}
