"""A priority that is changed after the submission: decisions follow it, and it is on record."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.core.errors import BadInput, Conflict
from flyball.core.jobs import JobState


def test_the_higher_priority_starts_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    first = rig.submit(cpus=4, estimate_s=50.0)
    rig.pass_s(1)
    second, third = rig.submit(cpus=4, estimate_s=50.0), rig.submit(cpus=4, estimate_s=50.0)
    rig.pass_s(1)
    assert rig.plane.prioritise([third], 5.0, "ada") == [third]
    assert rig.job(third).spec.priority == 5.0
    assert [job.id for job in rig.plane.ask.queue()] == [first, third, second]
    rig.plane.cancel(first)
    rig.settle()
    assert rig.states(second, third) == [JobState.PENDING, JobState.RUNNING]
    assert rig.verdict().differing == []


def test_it_survives_a_restart(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(cpus=4)
    rig.plane.prioritise([job], -3.0)
    rig.plane.close()
    rig.open()
    assert rig.job(job).spec.priority == -3.0


def test_what_cannot_be_changed(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    job = rig.submit(cpus=1)
    with pytest.raises(BadInput):
        rig.plane.prioritise([job], 1e12)
    rig.plane.cancel(job)
    rig.settle()
    with pytest.raises(Conflict, match="only an active job"):
        rig.plane.prioritise([job], 1.0)
