"""The cycle: every action is on record before it is carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import START_US, Rig

from flyball.control.journal.store import JournalUnavailable
from flyball.core.jobs import JobState
from flyball.core.live import Launch, Stop


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def fail_appends(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> None:
        raise JournalUnavailable("the disk is full", "free some space")

    monkeypatch.setattr(rig.plane.journal, "append", broken)


def test_without_a_journal_nothing_is_launched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    job = rig.submit()
    with monkeypatch.context() as patch:
        fail_appends(rig, patch)
        for _ in range(3):
            with pytest.raises(JournalUnavailable):
                rig.plane.step()
    assert rig.engine.actions == []
    assert rig.states(job) == [JobState.PENDING]
    assert rig.plane.step()
    assert rig.engine.launched == [(job, 1)]
    assert [decision["number"] for decision in rig.plane.ask.decisions(0, 9)] == [1]


def test_without_a_journal_nothing_is_acknowledged(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = rig.submit()
    rig.plane.step()
    rig.now += 10_000_000  # it has started and ended, and nobody has heard of either
    with monkeypatch.context() as patch:
        fail_appends(rig, patch)
        for _ in range(2):
            with pytest.raises(JournalUnavailable):
                rig.plane.step()
    assert (job, 1) in rig.engine.attempts
    assert rig.states(job) == [JobState.RUNNING]
    rig.settle()
    done = rig.job(job)
    assert done.state == JobState.COMPLETED
    assert done.first_start_us == START_US, "a start that is told once is not forgotten"
    assert not rig.engine.attempts
    assert rig.verdict().differing == []


def test_a_stop_waits_for_the_record_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, "srtf", ("round_s=30", "margin_s=5"))
    rig.submit(cpus=4, estimate_s=1000.0)
    rig.settle()
    rig.submit(cpus=2, estimate_s=10.0)
    rig.settle()
    rig.now += 70_000_000
    with monkeypatch.context() as patch:
        fail_appends(rig, patch)
        with pytest.raises(JournalUnavailable):
            rig.plane.step()
    assert rig.engine.stopped == []
    rig.plane.step()
    assert rig.engine.stopped == [(1, 1, "preempt")]


def test_a_refused_launch_is_retried(rig: Rig) -> None:
    job = rig.submit()
    rig.engine.refuses = (Launch,)
    rig.settle()
    assert rig.states(job) == [JobState.RUNNING], "it is on record; it is only late"
    assert not rig.plane.step(), "and trying again is nothing that happened"
    seq = rig.plane.live_state.seq
    rig.engine.refuses = ()
    rig.settle()
    assert rig.engine.launched == [(job, 1)]
    assert rig.plane.live_state.seq == seq + 1
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]


def test_a_refused_launch_that_is_cancelled_never_begins(rig: Rig) -> None:
    job = rig.submit()
    rig.engine.refuses = (Launch,)
    rig.settle()
    rig.plane.cancel(job)
    rig.engine.refuses = ()
    rig.finish()
    assert rig.states(job) == [JobState.CANCELLED]
    assert rig.engine.launched == []


def test_a_refused_stop_is_repeated(rig: Rig) -> None:
    job = rig.submit(estimate_s=1000.0)
    rig.settle()
    rig.plane.cancel(job)
    rig.engine.refuses = (Stop,)
    rig.settle()
    assert rig.states(job) == [JobState.COMPLETING]
    rig.engine.refuses = ()
    rig.settle()
    assert rig.states(job) == [JobState.CANCELLED]


def test_an_engine_that_breaks_down_in_the_middle(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [rig.submit(), rig.submit()]

    def broken(_action: object) -> None:
        raise OSError("no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(rig.engine, "apply", broken)
        with pytest.raises(OSError, match="no more processes"):
            rig.plane.step()
    rig.finish()
    assert rig.states(*jobs) == [JobState.COMPLETED] * 2
    assert rig.engine.launched == [(1, 1), (2, 1)]


def test_a_cancelled_job_is_not_launched_when_it_was_decided_meanwhile(rig: Rig) -> None:
    job = rig.submit()
    rig.at_point["decided"] = lambda: rig.plane.cancel(job)
    rig.settle()
    assert rig.states(job) == [JobState.CANCELLED]
    assert rig.engine.actions == []
    assert rig.verdict().differing == []


def test_a_job_that_comes_while_deciding_waits_for_the_next_decision(rig: Rig) -> None:
    rig.submit(cpus=2)
    rig.at_point["decided"] = lambda: rig.submit(cpus=2)
    rig.plane.step()
    assert rig.engine.launched == [(1, 1)]
    rig.settle()
    assert rig.engine.launched == [(1, 1), (2, 1)]
    assert rig.verdict().differing == []


def test_the_last_decision_is_kept(rig: Rig) -> None:
    rig.submit()
    rig.settle()
    assert rig.plane.loop.last.ids.tolist() == [1]
    assert rig.plane.pulse.cycles >= 2
