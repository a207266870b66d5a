"""A new control plane on an old folder: read the journal, ask the engine, reconcile."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import START_US, Rig

from flyball.control.roster import NOT_THERE
from flyball.core.errors import FlyballError
from flyball.core.jobs import JobState
from flyball.core.live import LiveNode
from flyball.schedule.policies.registry import get_policy


class Gone(FlyballError):
    """Raised to end the control plane at a point."""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def die_at(rig: Rig, point: str) -> None:
    """End the control plane at a point of its next cycle, and start another."""

    def die() -> None:
        raise Gone(point)

    rig.at_point[point] = die
    with pytest.raises(Gone):
        rig.plane.step()
    rig.plane.close()
    rig.open()


def test_pending_jobs_stay_pending(rig: Rig) -> None:
    rig.submit(cpus=4)
    rig.settle()
    rig.submit(cpus=2, user="ada", after=(("afterok", 1),))
    before = (rig.job(1), rig.job(2))
    rig.plane.close()
    rig.open()
    assert (rig.job(1), rig.job(2)) == before
    assert rig.recovered == 0
    rig.finish()
    assert rig.states(1, 2) == [JobState.COMPLETED] * 2
    assert rig.engine.launched == [(1, 1), (2, 1)]
    assert rig.verdict().differing == []


def test_jobs_that_ended_meanwhile(rig: Rig) -> None:
    rig.submit(estimate_s=5.0)
    rig.settle()
    rig.plane.close()
    rig.now += 60_000_000
    rig.open()
    assert rig.recovered == 1
    assert rig.job(1).end_us == START_US + 5_000_000
    assert not rig.engine.attempts
    assert rig.submit() == 2, "numbers go on"


@pytest.mark.parametrize("point", ["observed", "decided"])
def test_what_is_not_on_record_did_not_happen(rig: Rig, point: str) -> None:
    rig.submit()
    die_at(rig, point)
    assert rig.states(1) == [JobState.PENDING]
    rig.finish()
    assert rig.job(1).attempt == 1


@pytest.mark.parametrize("point", ["recorded", "acknowledged", "launching"])
def test_an_intended_attempt_that_was_not_launched_is_requeued(rig: Rig, point: str) -> None:
    rig.submit()
    die_at(rig, point)
    job = rig.job(1)
    assert (job.state, job.attempt, job.reason) == (JobState.PENDING, 1, "requeued-void")
    assert rig.recovered == 1
    rig.finish()
    assert rig.engine.launched == [(1, 2)], "the first token is never used"
    assert rig.engine.runs == {(1, 1): 0, (1, 2): 1}
    assert rig.verdict().differing == []


def test_a_launched_attempt_keeps_running(rig: Rig) -> None:
    rig.submit()
    die_at(rig, "acted")
    assert (rig.states(1), rig.recovered) == ([JobState.RUNNING], 0)
    assert rig.job(1).started_us == START_US, "its start is on record now"
    rig.finish()
    assert (rig.states(1), rig.job(1).attempt) == ([JobState.COMPLETED], 1)


def test_an_end_on_record_that_was_not_acknowledged(rig: Rig) -> None:
    rig.submit()
    rig.settle()
    rig.now += 10_000_000
    die_at(rig, "recorded")
    assert rig.states(1) == [JobState.COMPLETED]
    assert not rig.engine.attempts


def test_a_stop_is_repeated_by_the_next_control_plane(rig: Rig) -> None:
    rig.submit(estimate_s=500.0)
    rig.settle()
    rig.plane.cancel(1)
    die_at(rig, "acknowledged")
    assert rig.states(1) == [JobState.COMPLETING]
    rig.settle()
    assert rig.engine.stopped == [(1, 1, "cancel")]
    assert rig.states(1) == [JobState.CANCELLED]


def test_a_lost_supervisor_is_noticed(rig: Rig) -> None:
    jobs = [rig.submit(estimate_s=50.0), rig.submit(estimate_s=50.0, requeue=False)]
    rig.settle()
    rig.plane.close()
    for job in jobs:
        rig.engine.lose((job, 1))
    rig.open()
    assert rig.states(*jobs) == [JobState.PENDING, JobState.NODE_FAIL]
    assert rig.job(1).failures == 1
    rig.finish()
    assert rig.states(1) == [JobState.COMPLETED]


def test_decisions_are_numbered_on(rig: Rig) -> None:
    for _ in range(2):
        rig.submit()
        rig.finish()
        rig.plane.close()
        rig.open()
    rig.submit()
    rig.finish()
    assert [decision["number"] for decision in rig.plane.ask.decisions(0, 9)] == [1, 2, 3]


def test_another_policy_on_another_machine(rig: Rig) -> None:
    rig.submit(cpus=4, estimate_s=50.0)
    rig.settle()
    rig.submit(cpus=4, estimate_s=30.0)
    rig.submit(cpus=2, estimate_s=10.0)
    rig.pass_s(60)
    rig.plane.close()
    rig.policy, rig.knobs = "sjf", get_policy("sjf").knobs
    rig.engine.nodes_ = (LiveNode("b", "CPU1", 8, 8, 8192),)
    rig.open()
    rig.submit(cpus=8)
    rig.finish()
    assert rig.states(1, 2, 3, 4) == [JobState.COMPLETED] * 4
    verdict = rig.verdict()
    assert (verdict.differing, verdict.decisions > 3) == ([], True)


def test_jobs_that_do_not_fit_a_smaller_machine_wait_for_a_larger_one(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4)
    rig.settle()
    wide, narrow = rig.submit(cpus=4), rig.submit(cpus=2)
    rig.now = rig.engine.next_us
    rig.plane.close()
    rig.engine.nodes_ = (LiveNode("a", "CPU1", 2, 2, 8192),)
    rig.open()
    rig.finish()
    assert rig.states(1, wide, narrow) == [
        JobState.COMPLETED,
        JobState.PENDING,
        JobState.COMPLETED,
    ]
    answer = rig.plane.ask.why(wide)
    assert answer["token"] == "no-such-node"
    assert "4" in answer["sentence"] and "2" in answer["sentence"]
    assert rig.plane.ask.waiting_tokens([rig.job(wide)]) == {wide: "no-such-node"}
    rig.engine.nodes_ = (LiveNode("a", "CPU1", 4, 4, 8192),)
    rig.finish()
    assert rig.states(wide) == [JobState.COMPLETED], "also without another restart"
    assert rig.verdict().differing == []


def test_jobs_wait_for_a_node_that_is_absent_at_a_restart(tmp_path: Path) -> None:
    nodes = (LiveNode("a", "CPU1", 2, 2, 8192), LiveNode("b", "CPU1", 8, 8, 99))
    rig = Rig(tmp_path, "easy", nodes=nodes)
    holder = rig.submit(cpus=8)
    rig.settle()
    wide, narrow = rig.submit(cpus=8), rig.submit(cpus=2)
    rig.plane.close()
    absent = rig.engine.remove("b")
    rig.open()
    rig.finish()
    assert rig.states(holder) == [JobState.PENDING], "it was lost with its node"
    assert rig.states(wide, narrow) == [JobState.PENDING, JobState.COMPLETED]
    rig.plane.close()
    rig.open()
    rig.finish()
    assert rig.states(wide) == [JobState.PENDING]
    shown = {node["name"]: (node["state"], node["reason"]) for node in rig.plane.ask.nodes()}
    assert shown == {"a": ("up", ""), "b": ("absent", NOT_THERE)}
    rig.engine.add(absent)
    rig.finish()
    assert rig.states(holder, wide) == [JobState.COMPLETED] * 2
    assert rig.verdict().differing == []
