"""Deferrable jobs of a live cluster, on a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import START_US, Rig

from flyball.control.ask.bills import Prices
from flyball.core.jobs import JobState
from flyball.core.signals import DAY_US, HOUR_US, Signal
from flyball.core.units import US_PER_S

START_S = START_US / US_PER_S
NIGHT = [10.0, 10.0, 1.0, 1.0, *[10.0] * 20]
"""Cheap from 02:00 to 04:00 UTC; the clock begins at 22:13."""
TWO_US = START_US // DAY_US * DAY_US + DAY_US + 2 * HOUR_US


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path, prices=Prices(price=Signal.profile(NIGHT, DAY_US)))


def pass_min(rig: Rig, minutes: int) -> None:
    """Let time pass with a cycle every ten minutes, as the live loop has them more often."""
    for _ in range(minutes // 10):
        rig.pass_s(600)


def test_a_deferrable_job_waits_for_the_cheap_hour_with_its_reason(rig: Rig) -> None:
    job = rig.submit(cpus=1, estimate_s=600.0, deferrable_until=START_S + 12 * 3600)
    other = rig.submit(cpus=1, estimate_s=600.0)
    pass_min(rig, 60)
    assert rig.states(job, other) == [JobState.PENDING, JobState.COMPLETED]
    assert rig.plane.ask.waiting_tokens([rig.job(job)])[job] == "deferred"
    why = rig.plane.ask.why(job)
    assert why["token"] == "deferred"
    assert why["numbers"]["until"] * US_PER_S == TWO_US
    assert why["numbers"]["latest"] == START_S + 12 * 3600
    assert "expected to cost" in why["sentence"]
    held = rig.plane.ask.view(rig.job(job))["held"]
    assert held["deferred"]["until"] * US_PER_S == TWO_US
    while rig.now < TWO_US - 600 * US_PER_S:
        rig.pass_s(600)
    assert rig.states(job) == [JobState.PENDING]
    pass_min(rig, 20)
    assert rig.states(job)[0] in (JobState.RUNNING, JobState.COMPLETED)
    assert rig.job(job).started_us >= TWO_US
    assert rig.verdict().differing == []


def test_a_deferral_ends_at_the_latest_start_and_survives_a_restart(rig: Rig) -> None:
    latest_s = START_S + 2 * 3600
    job = rig.submit(
        cpus=1, estimate_s=600.0, limit_s=900.0,
        deferrable_until=START_S + 12 * 3600, deadline=latest_s + 900,
    )  # fmt: skip
    soon = rig.submit(cpus=1, estimate_s=600.0, deferrable_until=START_S + 1)
    pass_min(rig, 60)
    rig.plane.close()
    rig.open()
    assert rig.states(job, soon)[1] == JobState.COMPLETED
    pass_min(rig, 70)
    assert rig.job(job).started_us <= latest_s * US_PER_S
    pass_min(rig, 20)
    assert rig.states(job) == [JobState.COMPLETED]
    assert rig.verdict().differing == []


def test_a_user_releases_a_deferred_job_for_good(rig: Rig) -> None:
    job = rig.submit(cpus=1, estimate_s=600.0, deferrable_until=START_S + 12 * 3600)
    rig.settle()
    assert rig.states(job) == [JobState.PENDING]
    assert rig.plane.release([job]) == [job]
    rig.settle()
    assert rig.states(job) == [JobState.RUNNING]


def test_nothing_is_deferred_without_a_price_that_changes(tmp_path: Path) -> None:
    rig = Rig(tmp_path, prices=Prices(price=Signal.flat(0.3)))
    spec = rig.submit(cpus=1, estimate_s=600.0, deferrable_until=START_S + 12 * 3600)
    rig.settle()
    assert rig.states(spec) == [JobState.RUNNING]
    notes = rig.plane.notes([rig.job(spec).spec])
    assert any("deferrable" in str(note) for note in notes)
