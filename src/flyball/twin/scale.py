"""Services: arrays of identical jobs (replicas), of which a set number is admitted.

Surplus replicas are held again, newest first: pending ones before running ones.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import kernel
from flyball.schedule import queue
from flyball.schedule.slices import cut_short
from flyball.twin.change import release_devices
from flyball.twin.totals import note_end

HELD, PENDING = int(Status.HELD), int(Status.PENDING)
RUNNING, DONE = int(Status.RUNNING), int(Status.DONE)
OVER = -1
"""Number of replicas that ends the service."""


@kernel
def next_surplus(state: Any, group_id: int) -> int:
    """Return the replica to stop next: the last pending, else the last running; -1 = none."""
    running = -1
    for job_id in range(state.clock[0].next_job - 1, -1, -1):
        if state.jobs[job_id].group == group_id:
            if state.runs[job_id].status == PENDING:
                return job_id
            if state.runs[job_id].status == RUNNING and running < 0:
                running = job_id
    return running


@kernel
def stop_replica(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Stop a pending or running replica; none of its work is lost."""
    run = state.runs[job_id]
    if run.status == PENDING:
        queue.remove(state, job_id)
        state.clock[0].pending -= 1
    else:
        cut_short(state, job_id, max(0, now - run.ready_us) * run.rate, now)
        release_devices(state, knobs, job_id, now)
    run.status = HELD


@kernel
def hold_replica(state: Any, group_id: int, job_id: int) -> None:
    """Put a replica at the end of the held ones."""
    group = state.groups[group_id]
    state.runs[job_id].link = -1
    if group.head < 0:
        group.head = job_id
    else:
        state.runs[group.tail].link = job_id
    group.tail = job_id


@kernel
def end_service(state: Any, knobs: Any, group_id: int, now: int) -> None:
    """End a service and every replica that was submitted."""
    group, clock = state.groups[group_id], state.clock[0]
    for job_id in range(clock.next_job):
        run = state.runs[job_id]
        if state.jobs[job_id].group != group_id or run.status >= DONE:
            continue
        if run.status != HELD:
            stop_replica(state, knobs, job_id, now)
        run.status, run.end_us = DONE, now
        note_end(state, job_id, now)
        clock.finished += 1
        clock.ends += 1
    group.head = group.tail = -1
    group.admitted = 0


@kernel
def shrink(state: Any, knobs: Any, group_id: int, count: int, now: int) -> None:
    """Stop replicas until `count` are left."""
    group = state.groups[group_id]
    while group.admitted > count:
        job_id = next_surplus(state, group_id)
        stop_replica(state, knobs, job_id, now)
        hold_replica(state, group_id, job_id)
        group.admitted -= 1


@kernel
def scale(state: Any, knobs: Any, group_id: int, count: int, now: int) -> bool:
    """Set the replicas of a service to `count`, or to all it has; -1 = it ends."""
    if not 0 <= group_id < len(state.groups) or count < OVER:
        return False
    if count == OVER:
        end_service(state, knobs, group_id, now)
        return True
    group = state.groups[group_id]
    group.limit = count
    shrink(state, knobs, group_id, count, now)
    while group.admitted < count and group.head >= 0:
        job_id = group.head
        group.head = state.runs[job_id].link
        group.admitted += 1
        queue.enqueue(state, knobs, job_id, now)
    return True
