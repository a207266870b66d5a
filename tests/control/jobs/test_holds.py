"""Jobs that may not start yet: held, or to begin later."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import START_US, Rig

from flyball.core.errors import Conflict
from flyball.core.jobs import JobState
from flyball.core.units import US_PER_S

START_S = START_US / US_PER_S


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def restart(rig: Rig) -> None:
    """End this control plane and start another on the same folder."""
    rig.plane.close()
    rig.open()


def token(rig: Rig, job: int) -> str:
    reason = rig.plane.ask.waiting_tokens([rig.job(job)])[job]
    assert rig.plane.ask.why(job)["token"] == reason
    return reason


def test_held_job_starts_when_it_is_released(rig: Rig) -> None:
    job = rig.submit(hold=True, user="ada")
    rig.pass_s(100)
    assert rig.states(job) == [JobState.PENDING]
    assert token(rig, job) == "held"
    why = rig.plane.ask.why(job)
    assert "held by ada" in why["sentence"]
    assert why["remedies"] == [f"flyball release {job} lets it start."]
    assert rig.plane.ask.view(rig.job(job))["held"] == {"by": "ada", "begin_time": None}
    assert rig.plane.release([job]) == [job]
    rig.settle()
    assert rig.states(job) == [JobState.RUNNING]
    assert rig.plane.ask.view(rig.job(job))["held"] is None
    assert rig.plane.release([job]) == []
    assert rig.verdict().differing == []


def test_hold_survives_a_restart(rig: Rig) -> None:
    waiting = rig.submit(cpus=4, estimate_s=50.0)
    job = rig.submit(cpus=4)
    rig.settle()
    assert rig.plane.hold([job], "ben") == [job]
    restart(rig)
    rig.finish()
    assert rig.states(waiting, job) == [JobState.COMPLETED, JobState.PENDING]
    assert rig.plane.ask.view(rig.job(job))["held"] == {"by": "ben", "begin_time": None}
    rig.plane.release([job])
    restart(rig)
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []


def test_job_begins_when_its_time_has_come(rig: Rig) -> None:
    job = rig.submit(begin_time=START_S + 3600)
    now = rig.submit(begin_time=START_S - 5)
    rig.pass_s(60)
    restart(rig)
    assert rig.states(job, now) == [JobState.PENDING, JobState.COMPLETED]
    assert token(rig, job) == "begins-later"
    why = rig.plane.ask.why(job)
    assert why["numbers"]["in_s"] == pytest.approx(3540)
    assert "in 59.0 min" in why["sentence"]
    rig.pass_s(3539)
    assert rig.states(job) == [JobState.PENDING]
    rig.pass_s(2)
    assert rig.states(job) == [JobState.RUNNING]
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []


def test_release_does_not_change_the_time_to_begin(rig: Rig) -> None:
    job = rig.submit(hold=True, begin_time=START_S + 100)
    rig.settle()
    assert token(rig, job) == "held"
    rig.plane.release([job])
    rig.settle()
    assert token(rig, job) == "begins-later"
    rig.pass_s(101)
    assert rig.states(job) == [JobState.RUNNING]
    later = rig.submit(hold=True, begin_time=START_S + 150)
    rig.pass_s(100)
    assert rig.states(later) == [JobState.PENDING]
    assert token(rig, later) == "held"


def test_what_comes_after_a_held_job_waits_as_well(rig: Rig) -> None:
    first = rig.submit(hold=True)
    second = rig.submit(after=(("afterany", first),))
    third = rig.submit(after=(("afterok", second),))
    free = rig.submit()
    rig.pass_s(100)
    assert rig.states(first, second, third) == [JobState.PENDING] * 3
    assert rig.states(free) == [JobState.COMPLETED]
    assert token(rig, third) == "waits-for-jobs"
    assert f"job {first}, which is held" in rig.plane.ask.why(third)["sentence"]
    rig.plane.release([first])
    rig.finish()
    assert rig.states(first, second, third) == [JobState.COMPLETED] * 3
    assert rig.verdict().differing == []


def test_held_jobs_do_not_keep_others_from_starting(rig: Rig) -> None:
    rig.submit(cpus=4, hold=True, priority=9.0)
    other = rig.submit(cpus=4)
    rig.settle()
    assert rig.states(other) == [JobState.RUNNING]
    assert rig.plane.columns.priority_waiting() == 0.0


def test_only_waiting_jobs_can_be_held(rig: Rig) -> None:
    job = rig.submit()
    rig.settle()
    with pytest.raises(Conflict, match=f"job {job} is RUNNING: only a waiting job can be held"):
        rig.plane.hold([job])
    rig.finish()
    with pytest.raises(Conflict, match="is COMPLETED"):
        rig.plane.hold([job])


def test_held_between_a_decision_and_its_record_does_not_start(rig: Rig) -> None:
    job = rig.submit()
    rig.at_point["decided"] = lambda: rig.plane.hold([job])
    rig.settle()
    assert rig.states(job) == [JobState.PENDING]
    assert rig.engine.alive == []
    rig.plane.release([job])
    rig.finish()
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []


def test_held_job_can_be_cancelled(rig: Rig) -> None:
    job = rig.submit(hold=True)
    rig.plane.cancel(job)
    rig.settle()
    assert rig.states(job) == [JobState.CANCELLED]


def test_dry_run_takes_the_time_to_begin_into_account(rig: Rig) -> None:
    from tests.control.live_cases import spec_of

    forecast = rig.plane.dry_run(spec_of(begin_time=START_S + 500))
    assert forecast["would_start"]
    assert forecast["p50_s"] == pytest.approx(500)
    assert not rig.plane.dry_run(spec_of(hold=True))["would_start"]
