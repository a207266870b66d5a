"""Jobs that may not start yet: held by a user, deferred, or submitted to begin at a later time.

A job's values keep all under `HELD`: `by` (the user that holds it), `until_us` (when it may begin)
and `deferred` (the last such event: see `control.jobs.deferrals`). They come from events alone, so
the journal is enough to tell which jobs may start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flyball.core.errors import Conflict
from flyball.core.events import Deferred, Event, Held, Released
from flyball.core.jobs import Job, JobState
from flyball.core.units import US_PER_S, to_us

if TYPE_CHECKING:
    from flyball.control.jobs.live_state import LiveState
    from flyball.control.journal.store import Journal

HELD = "held"
"""Key of the hold in a job's values."""
DEFERRED = "deferred"
"""Key of a deferral in the hold."""
RELEASED = "released"
"""Key in the values of a job that is not deferred again."""


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


def deferral(job: Job) -> dict[str, Any] | None:
    """Return the deferral of a job as its event states it; None if it is not deferred."""
    deferred: dict[str, Any] | None = job.values.get(HELD, {}).get(DEFERRED)
    return deferred


def token(job: Job) -> str:
    """Return the reason token of a held job."""
    if holder(job) is not None:
        return "held"
    return "begins-later" if begins_us(job) else "deferred"


def view(job: Job) -> dict[str, Any] | None:
    """Return the hold of a job as the API shows it; None if it is not held."""
    if not is_held(job):
        return None
    begins, deferred = begins_us(job), deferral(job)
    view: dict[str, Any] = {
        "by": holder(job),
        "begin_time": begins / US_PER_S if begins else None,
    }
    if deferred is not None:
        view["deferred"] = {
            "until": deferred["until_us"] / US_PER_S,
            "latest": deferred["latest_us"] / US_PER_S,
            "saving": deferred["saving"],
        }
    return view


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


def deferred(job: Job, event: Deferred) -> Job:
    """Defer a pending job, or until another time."""
    if job.state != JobState.PENDING:
        return job
    values = {name: getattr(event, name) for name in ("until_us", "latest_us", "saving")}
    return _with(job, {**job.values.get(HELD, {}), DEFERRED: values})


GONE = {"begin": ("until_us",), "defer": (DEFERRED,), "release": ("by", DEFERRED)}
"""What ends with a release, by its reason."""


def released(job: Job, event: Released) -> Job:
    """Release it: a user did, its time to begin has come, or waiting saves no more."""
    before, gone = job.values.get(HELD, {}), GONE.get(event.why, ("by",))
    left = {name: value for name, value in before.items() if name not in gone}
    out = _with(job, left)
    if DEFERRED in before and DEFERRED in gone:
        out = replace(out, values={**out.values, RELEASED: True})
    return out


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
        kept = [
            job
            for job in self._active(jobs)
            if holder(job) is not None or deferral(job) is not None
        ]
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
