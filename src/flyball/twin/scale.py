"""Services: an array of like jobs, its replicas, of which as many run as it is told.

A replica that is no longer wanted goes back among the held ones, newest first: those that wait for
devices before those that have some.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import kernel
from flyball.schedule import queue
from flyball.schedule.slices import cut_short
from flyball.twin.change import let_go

HELD, PENDING = int(Status.HELD), int(Status.PENDING)
RUNNING, DONE = int(Status.RUNNING), int(Status.DONE)
OVER = -1
"""As a number of replicas: the service ends."""


@kernel
def surplus(state: Any, group_id: int) -> int:
    """The replica to be given up next: the last pending one, else the last running; -1 = none."""
    running = -1
    for job_id in range(state.clock[0].next_job - 1, -1, -1):
        if state.jobs[job_id].group == group_id:
            if state.runs[job_id].status == PENDING:
                return job_id
            if state.runs[job_id].status == RUNNING and running < 0:
                running = job_id
    return running


@kernel
def give_up(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Stop a replica that waits or runs; nothing of it is lost."""
    run = state.runs[job_id]
    if run.status == PENDING:
        queue.remove(state, job_id)
        state.clock[0].pending -= 1
    else:
        cut_short(state, job_id, max(0, now - run.ready_us) * run.rate, now)
        let_go(state, knobs, job_id, now)
    run.status = HELD


@kernel
def hold(state: Any, group_id: int, job_id: int) -> None:
    """Put a replica behind the others that are held."""
    group = state.groups[group_id]
    state.runs[job_id].link = -1
    if group.head < 0:
        group.head = job_id
    else:
        state.runs[group.tail].link = job_id
    group.tail = job_id


@kernel
def close(state: Any, knobs: Any, group_id: int, now: int) -> None:
    """The service ends, and with it every replica that was submitted."""
    group, clock = state.groups[group_id], state.clock[0]
    for job_id in range(clock.next_job):
        run = state.runs[job_id]
        if state.jobs[job_id].group != group_id or run.status >= DONE:
            continue
        if run.status != HELD:
            give_up(state, knobs, job_id, now)
        run.status, run.end_us = DONE, now
        clock.finished += 1
        clock.ends += 1
    group.head = group.tail = -1
    group.admitted = 0


@kernel
def shrink(state: Any, knobs: Any, group_id: int, count: int, now: int) -> None:
    """Give replicas up until there are `count`."""
    group = state.groups[group_id]
    while group.admitted > count:
        job_id = surplus(state, group_id)
        give_up(state, knobs, job_id, now)
        hold(state, group_id, job_id)
        group.admitted -= 1


@kernel
def scale(state: Any, knobs: Any, group_id: int, count: int, now: int) -> bool:
    """Let a service have `count` replicas, as far as it has held ones left; -1 = it ends."""
    if not 0 <= group_id < len(state.groups) or count < OVER:
        return False
    if count == OVER:
        close(state, knobs, group_id, now)
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
