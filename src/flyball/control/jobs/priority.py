"""The priority of an active job, changed after its submission.

The journal keeps the request of a job as it was submitted, so a changed priority is kept in the
job's values, and put into its request wherever the job is read or folded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flyball.core.errors import Conflict
from flyball.core.events import Prioritised
from flyball.core.job_fields import FIELDS
from flyball.core.job_fields.forms import Number, invalid
from flyball.core.jobs import Job

if TYPE_CHECKING:
    from flyball.control.jobs.live_state import LiveState
    from flyball.control.journal.store import Journal

PRIORITY = "priority"
"""Key of the changed priority in a job's values."""


def prioritised(job: Job, event: Prioritised) -> Job:
    """Give an active job another priority."""
    return in_force(replace(job, values={**job.values, PRIORITY: float(event.priority)}))


def in_force(job: Job) -> Job:
    """Return a job whose request has the priority that is in force."""
    priority = job.values.get(PRIORITY, job.spec.priority)
    if priority == job.spec.priority:
        return job
    return replace(job, spec=replace(job.spec, priority=priority))


class Priorities:
    """Changes the priority of active jobs; a call returns when that is on record."""

    def __init__(self, live_state: LiveState, journal: Journal, now_us: Callable[[], int]) -> None:
        self._live_state, self._journal, self._now_us = live_state, journal, now_us

    def change(self, jobs: Sequence[int], priority: float, who: str) -> list[int]:
        """Give jobs another priority; return the ids of those that are active.

        Raises:
            BadInput: the priority is out of range.
            Conflict: none of them is active.
        """
        form = FIELDS["priority"].form
        assert isinstance(form, Number)
        if not form.allows(priority):
            raise invalid(priority, form)
        with self._live_state.lock:
            active = [job for job in jobs if job in self._live_state.jobs]
        if jobs and not active:
            state = self._live_state.ended.get(jobs[0], "gone")
            raise Conflict(
                f"job {jobs[0]} is {state}: only an active job has a priority", "see flyball queue"
            )
        now_us = self._now_us()
        if active:
            self._journal.append([Prioritised(now_us, job, priority, who) for job in active]).wait()
        return active
