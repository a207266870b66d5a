"""Jobs that may not start yet: held by a user, or submitted to begin at a later time.

A job's values keep both under `HELD`: `by` (the user that holds it) and `until_us` (when it may
begin). They come from events alone, so the journal is enough to tell which jobs may start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flyball.core.errors import Conflict
from flyball.core.events import Event, Held, Released
from flyball.core.jobs import Job, JobState
from flyball.core.units import US_PER_S, to_us

if TYPE_CHECKING:
    from flyball.control.jobs.live_state import LiveState
    from flyball.control.journal.store import Journal

HELD = "held"
"""Key of the hold in a job's values."""


def is_held(job: Job) -> bool:
    """Whether it is pending and may not start yet, whatever is free."""
    return job.state == JobState.PENDING and HELD in job.values


def holder(job: Job) -> str | None:
    """Return the user that holds it; None if it is not held."""
    by: str | None = job.values.get(HELD, {}).get("by")
    return by


def begins_us(job: Job) -> int:
    """Return when it may begin; 0 if no time was stated or the time has come."""
    return int(job.values.get(HELD, {}).get("until_us", 0))


def token(job: Job) -> str:
    """Return the reason token of a held job."""
    return "held" if holder(job) is not None else "begins-later"


def view(job: Job) -> dict[str, Any] | None:
    """Return the hold of a job as the API shows it; None if it is not held."""
    if not is_held(job):
        return None
    begins = begins_us(job)
    return {"by": holder(job), "begin_time": begins / US_PER_S if begins else None}


# How events change a job -------------------------------------------------------------


def _with(job: Job, held: Mapping[str, Any]) -> Job:
    values = {name: value for name, value in job.values.items() if name != HELD}
    return replace(job, values={**values, HELD: dict(held)} if held else values)


def submitted(job: Job) -> Job:
    """Return a new job, held if its spec asks for that."""
    spec, held = job.spec, dict[str, Any]()
    if spec.hold:
        held["by"] = spec.user
    if to_us(spec.begin_time) > job.submit_us:
        held["until_us"] = to_us(spec.begin_time)
    return _with(job, held) if held else job


def held(job: Job, event: Held) -> Job:
    """Hold a pending job."""
    if job.state != JobState.PENDING:
        return job
    return _with(job, {**job.values.get(HELD, {}), "by": event.by})


def released(job: Job, event: Released) -> Job:
    """Release it: a user did, or its time to begin has come."""
    gone = "until_us" if event.why == "begin" else "by"
    left = {name: value for name, value in job.values.get(HELD, {}).items() if name != gone}
    return _with(job, left)


# Requests ----------------------------------------------------------------------------


class Holds:
    """Holds and releases pending jobs; a call returns when that is on record."""

    def __init__(self, live_state: LiveState, journal: Journal, now_us: Callable[[], int]) -> None:
        self._live_state, self._journal, self._now_us = live_state, journal, now_us

    def hold(self, jobs: Sequence[int], by: str, who: str) -> list[int]:
        """Keep pending jobs from starting; return the ids of those that are held now.

        Raises:
            Conflict: none of them is pending.
        """
        waiting = [job for job in self._active(jobs) if job.state == JobState.PENDING]
        if jobs and not waiting:
            job = self._live_state.get(jobs[0])
            state = job.state if job else self._live_state.ended.get(jobs[0], "gone")
            remedy = f"flyball cancel {jobs[0]} ends it" if job else "see flyball queue"
            raise Conflict(f"job {jobs[0]} is {state}: only a waiting job can be held", remedy)
        now_us = self._now_us()
        return self._record([Held(now_us, job.id, by, who) for job in waiting])

    def release(self, jobs: Sequence[int], who: str) -> list[int]:
        """Let held jobs start as soon as they can; return the ids of those that were held."""
        kept = [job for job in self._active(jobs) if holder(job) is not None]
        now_us = self._now_us()
        return self._record([Released(now_us, job.id, "release", who) for job in kept])

    def due(self, jobs: Iterable[Job], now_us: int) -> list[Event]:
        """Return the releases of jobs whose time to begin has come, for the next decision."""
        return [Released(now_us, job.id, "begin") for job in jobs if 0 < begins_us(job) <= now_us]

    def _active(self, jobs: Sequence[int]) -> list[Job]:
        with self._live_state.lock:
            return [
                self._live_state.jobs[job_id] for job_id in jobs if job_id in self._live_state.jobs
            ]

    def _record(self, events: Sequence[Held | Released]) -> list[int]:
        """Record events; return the ids of their jobs."""
        if events:
            self._journal.append(events).wait()
        return [event.job for event in events]
