"""Deadlines: who is refused, who is ended, when and why."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import START_US, Rig, env, spec_of

from flyball.core.errors import BadInput
from flyball.core.jobs import JobState

START_S = START_US / 1e6


def test_a_waiting_job_ends_when_its_limit_no_longer_fits(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4, env=env(run_s=100.0), estimate_s=100.0)
    late = rig.submit(cpus=4, limit_s=30.0, deadline=START_S + 60)
    unlimited = rig.submit(cpus=4, deadline=START_S + 60)
    rig.pass_s(30.0)
    assert rig.states(late, unlimited) == [JobState.PENDING] * 2
    rig.pass_s(1.0)
    assert rig.states(late, unlimited) == [JobState.CANCELLED, JobState.PENDING]
    assert rig.job(late).reason == (
        "deadline: its time limit of 30 s no longer fits in before its deadline"
    )
    rig.pass_s(29.0)
    assert rig.states(unlimited) == [JobState.CANCELLED]
    assert rig.job(unlimited).reason == "deadline: it had not ended by its deadline"
    rig.finish()
    assert rig.verdict().differing == []


def test_a_running_job_ends_at_its_deadline(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    in_time = rig.submit(env=env(run_s=20.0), deadline=START_S + 60)
    too_long = rig.submit(env=env(run_s=100.0), deadline=START_S + 60)
    rig.pass_s(59.0)
    assert rig.states(in_time, too_long) == [JobState.COMPLETED, JobState.RUNNING]
    rig.pass_s(1.0)
    assert rig.states(too_long) == [JobState.CANCELLED]
    assert rig.job(too_long).reason == "deadline: it had not ended by its deadline"
    assert rig.engine.stopped == [(too_long, 1, "cancel")]


def test_a_deadline_outlives_the_control_plane(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.submit(cpus=4, env=env(run_s=100.0), estimate_s=100.0)
    waiting = rig.submit(cpus=4, deadline=START_S + 10)
    rig.settle()
    rig.plane.close()
    rig.open()
    rig.pass_s(10.0)
    assert rig.states(waiting) == [JobState.CANCELLED]


def test_a_job_that_cannot_end_in_time_is_refused(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    for ask in (rig.plane.dry_run, lambda spec: rig.plane.submit([spec])):
        with pytest.raises(BadInput, match=r"its deadline passed 5 s ago; use a later --deadline"):
            ask(spec_of(deadline=START_S - 5))
        with pytest.raises(BadInput, match=r"is in 60 s, and its time limit is 90 s; use a short"):
            ask(spec_of(limit_s=90.0, deadline=START_S + 60))
    rig.submit(limit_s=60.0, deadline=START_S + 60)


def test_a_retry_after_the_deadline_gets_the_same_answer(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(key="k", deadline=START_S + 5)
    rig.now += 60_000_000
    assert rig.submit(key="k", deadline=START_S + 5) == job
