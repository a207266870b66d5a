"""A policy's moves on a live cluster: the job restarts on the faster node, and it replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.control.live_cases import Rig

from flyball.core.jobs import JobState, Row
from flyball.core.live import LiveNode

NODES = (
    LiveNode("k", "K80", 1, 16, 8192, ("k0",)),
    LiveNode("v", "V100", 1, 16, 8192, ("v0",)),
)
SLOW, FAST = 0, 1
SETTINGS = ("round_s=30", "place=fastest", "move_s=100")


def rig_with_a_job_on_the_slow_node(folder: Path, **asked: Any) -> tuple[Rig, int, int]:
    rig = Rig(folder, "srtf", SETTINGS, NODES)
    first = rig.submit(gpus=1, estimate_s=40.0)
    second = rig.submit(gpus=1, estimate_s=5000.0, **asked)
    rig.pass_s(1)
    assert [rig.job(job).rows for job in (first, second)] == [(Row(FAST, 1),), (Row(SLOW, 1),)]
    return rig, first, second


def test_a_running_job_moves_to_the_faster_node_and_it_replays(tmp_path: Path) -> None:
    rig, first, second = rig_with_a_job_on_the_slow_node(tmp_path)
    rig.pass_s(90)
    rig.pass_s(30)
    assert rig.states(first, second) == [JobState.COMPLETED, JobState.RUNNING]
    moved = rig.job(second)
    assert (moved.rows, moved.attempt, moved.preemptions) == ((Row(FAST, 1),), 2, 1)
    entry = moved.values["tuned"]["log"][0]
    assert (entry["reason"], entry["who"]) == ("moved-up", "policy")
    assert entry["gain"] > 100
    rig.pass_s(300)
    assert rig.job(second).attempt == 2, "it is on the fastest node: nothing is left to do"
    assert rig.verdict().differing == []


def test_a_job_that_may_not_be_preempted_stays(tmp_path: Path) -> None:
    rig, _first, second = rig_with_a_job_on_the_slow_node(tmp_path, preemptible=False)
    for _ in range(5):
        rig.pass_s(30)
    assert (rig.job(second).rows, rig.job(second).attempt) == ((Row(SLOW, 1),), 1)
    assert rig.engine.stopped == []
    assert rig.verdict().differing == []


def test_a_pending_job_takes_the_faster_node_first(tmp_path: Path) -> None:
    rig, _first, second = rig_with_a_job_on_the_slow_node(tmp_path)
    third = rig.submit(gpus=1, estimate_s=60.0)
    rig.pass_s(60)
    assert rig.job(third).rows == (Row(FAST, 1),)
    assert rig.job(second).rows == (Row(SLOW, 1),)
