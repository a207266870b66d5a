"""Reported values are kept: between reports, after the end, after a restart."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.control.live_cases import FakeSensors, Rig, env

from flyball.control.journal.store import JobQuery


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture
def agent(rig: Rig) -> FakeSensors:
    sensors = rig.plane.ask.sensors = FakeSensors()
    return sensors


def progress(rig: Rig, job: int) -> Any:
    return rig.plane.ask.view(rig.job(job))["progress"]


def test_a_value_reported_once_stays_while_the_job_runs(rig: Rig, agent: FakeSensors) -> None:
    job = rig.submit(estimate_s=500.0)
    rig.settle()
    agent.values = {"application.1.total_steps": 90.0, "application.7.step": 1.0}
    rig.pass_s(2)
    assert progress(rig, job) == {"total_steps": 90.0}
    agent.values = {"application.1.step": 10.0}
    rig.pass_s(60)
    assert progress(rig, job) == {"total_steps": 90.0, "step": 10.0}
    agent.values = {}
    agent.stored = {"application.1.step": [10.0]}
    rig.pass_s(60)
    assert progress(rig, job) == {"total_steps": 90.0, "step": 10.0}
    steps = rig.plane.forecaster.steps(rig.job(job))
    assert steps is not None
    assert steps.total == 90.0


def test_an_end_has_the_last_report(rig: Rig, agent: FakeSensors) -> None:
    job, other = rig.submit(env=env(run_s=10)), rig.submit(env=env(run_s=10))
    rig.pass_s(5)
    agent.values = {"application.1.loss": 0.5}
    rig.plane.report(other, 0, {"step": 3, "phase": "warm"})
    rig.finish()
    progress_values = [rig.job(job_id).values["progress"] for job_id in (job, other)]
    assert progress_values == [{"loss": 0.5}, {"step": 3, "phase": "warm"}]
    rig.open()
    assert [progress(rig, job_id) for job_id in (job, other)] == progress_values, "it is on record"
    assert not rig.verdict().differing


def test_a_report_published_after_the_end(rig: Rig, agent: FakeSensors) -> None:
    job = rig.submit(env=env(run_s=10))
    rig.pass_s(5)
    agent.values = {"application.1.loss": 0.5}
    rig.finish()
    agent.values = {"application.1.loss": 0.1}
    rig.pass_s(2)
    assert progress(rig, job) == {"loss": 0.1}
    rig.pass_s(10)
    assert progress(rig, job) == {"loss": 0.1}
    assert rig.job(job).values["progress"] == {"loss": 0.1}
    assert rig.job(job).values["exit_code"] == 0
    assert [listed.id for listed in rig.plane.ask.jobs(JobQuery())] == [job]
    rig.open()
    assert progress(rig, job) == {"loss": 0.1}
    assert not rig.verdict().differing


def test_nothing_is_kept_of_jobs_that_ended_a_while_ago(rig: Rig, agent: FakeSensors) -> None:
    jobs = [rig.submit(env=env(run_s=1)) for _ in range(20)]
    agent.values = {f"application.{job}.step": 1.0 for job in jobs}
    rig.finish()
    rig.pass_s(60)
    rig.pass_s(60)
    assert (rig.plane.progress._reported, rig.plane.progress._ended) == ({}, {})
    assert progress(rig, jobs[-1]) == {"step": 1.0}


def test_an_end_is_learnt_from_once(
    rig: Rig, agent: FakeSensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnt: list[int] = []
    monkeypatch.setattr(rig.plane.durations, "learn", lambda job: learnt.append(job.id))
    job = rig.submit(env=env(run_s=1))
    rig.finish()
    agent.values = {"application.1.loss": 0.1}
    rig.pass_s(2)
    rig.pass_s(10)
    assert rig.job(job).values["progress"] == {"loss": 0.1}
    assert learnt == [job]


def test_late_reports_are_repeated_until_they_are_on_record(rig: Rig, agent: FakeSensors) -> None:
    """A disk that cannot be written for a while loses none of them."""
    job = rig.submit(env=env(run_s=1))
    rig.finish()
    agent.values = {"application.1.loss": 0.1}
    rig.now += 10_000_000
    late = rig.plane.progress.late()
    assert [event.as_dict()["values"] for event in late] == [{"loss": 0.1}]
    assert rig.plane.progress.late() == late
    rig.settle()
    assert rig.job(job).values["progress"] == {"loss": 0.1}
    assert rig.plane.progress.late() == []


def test_after_a_restart_telemetry_is_read(rig: Rig, agent: FakeSensors) -> None:
    """The agent ends with the control plane, and a new one has received nothing yet."""
    job = rig.submit(estimate_s=500.0)
    rig.settle()
    agent.stored = {
        "application.1.loss": [3.0, 2.0], "application.12.loss": [1.0], "compute.total_percent": [],
    }  # fmt: skip
    rig.plane.progress.recall([job])
    for thread in threading.enumerate():
        if thread.daemon and "_look_up" in thread.name:
            thread.join()
    assert progress(rig, job) == {"loss": 2.0}
    agent.values = {"application.1.loss": 1.5}
    rig.pass_s(5)
    assert progress(rig, job) == {"loss": 1.5}


def test_a_preempted_job_keeps_its_progress(rig: Rig, agent: FakeSensors) -> None:
    rig.submit()
    rig.settle()
    rig.plane.report(1, 1, {"step": 7})
    rig.plane.report(1, 2, {"step": 9})  # of an attempt that there is not
    assert progress(rig, 1) == {"step": 7}
