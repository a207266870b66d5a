"""Jobs on their way into the queue: deferred, held by their array, or pending.

A job that may be deferred is held from its submission (or the end of its last predecessor) until
tuners release it, at the latest until `defer_us`. Tuners may hold back a pending job once more.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import hot, kernel
from flyball.schedule import queue
from flyball.schedule.reserve import drop_reservation
from flyball.twin.events import RELEASE_EVENT, push_event

HELD, PENDING = int(Status.HELD), int(Status.PENDING)


@hot
def admit_or_defer(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Admit a job that waits for no predecessor, or hold it back if it may be deferred."""
    run_ = state.runs[job_id]
    if run_.defer_us > now:
        push_event(state, run_.defer_us, RELEASE_EVENT, job_id)
        return
    run_.defer_us = 0
    admit(state, knobs, job_id, now)


@kernel
def is_deferred(state: Any, job_id: int, now: int) -> bool:
    """Return whether a job is held back and for no other reason."""
    run_ = state.runs[job_id]
    return bool(run_.status == HELD and run_.waiting_on == 0 and run_.defer_us > now)


@kernel
def release_job(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """End the deferral of a job."""
    clock = state.clock[0]
    clock.shares_due, clock.settled = 1, 0
    state.runs[job_id].defer_us = 0
    admit(state, knobs, job_id, now)


@kernel
def hold_back(state: Any, job_id: int, until_us: int, now: int) -> None:
    """Take a pending job out of the queue until `until_us`; any other job stays as it is."""
    run_ = state.runs[job_id]
    if run_.status != PENDING or state.jobs[job_id].group >= 0 or until_us <= now:
        return
    queue.remove(state, job_id)
    clock = state.clock[0]
    clock.pending -= 1
    if clock.reserved_job == job_id:
        drop_reservation(state)
    run_.status = HELD
    run_.defer_us = until_us
    push_event(state, until_us, RELEASE_EVENT, job_id)


@hot
def admit(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Queue a job that waits for no predecessor, unless its array is at its limit."""
    group_id = state.jobs[job_id].group
    if group_id >= 0:
        group = state.groups[group_id]
        if group.admitted >= group.limit:
            if group.head < 0:
                group.head = job_id
            else:
                state.runs[group.tail].link = job_id
            group.tail = job_id
            return
        group.admitted += 1
    queue.enqueue(state, knobs, job_id, now)
