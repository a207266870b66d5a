"""Puts a live cluster's running and pending jobs into a state of the twin."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import entry, kernel
from flyball.schedule.allocate import take_away
from flyball.schedule.start import start_as_planned
from flyball.twin.change import schedule_end
from flyball.twin.kernel import arrive, take_down

RUNNING = int(Status.RUNNING)


@entry
def adopt(state: Any, packed: Any, past: Any, down: Any, taken: Any, now: int) -> None:
    """Put the running jobs on their devices and the others into the queue.

    Args:
        state: as built from the active jobs; its plan holds the rows of the running ones, job by
            job in the order of their starts.
        packed: the knobs.
        past: a record of `PAST` for every job.
        down: indices of nodes that are down.
        taken: rows (node, devices, cores, MiB of memory) of what jobs have which are not in it.
        now: the instant of the snapshot.
    """
    knobs, clock = packed[0], state.clock[0]
    for job_id in range(len(past)):
        run = state.runs[job_id]
        run.done_us = past[job_id].done_us
        run.service_us = past[job_id].service_us
        run.attempt = past[job_id].attempt
    at = 0
    while at < clock.actions:
        job_id = state.plan[at].job
        admit_running(state, job_id)
        at = start_as_planned(state, knobs, at, past[job_id].since_us)
        run = state.runs[job_id]
        run.attempt = past[job_id].attempt
        run.ready_us = run.awake_us = past[job_id].since_us
    clock.actions = 0
    for at in range(len(taken)):
        take_away(state, taken[at, 0], taken[at, 1], taken[at, 2], taken[at, 3])
    for at in range(len(down)):
        take_down(state, down[at], now)
    for job_id in range(len(past)):
        clock.arrivals += 1
        if state.runs[job_id].status != RUNNING:
            arrive(state, knobs, job_id, past[job_id].queued_us)
    clock.next_job = len(state.jobs)
    clock.now_us = now
    clock.capacity_grew = 1
    clock.shares_due = 1


@kernel
def admit_running(state: Any, job_id: int) -> None:
    """Count a running job as if it had gone through the queue."""
    state.clock[0].pending += 1
    group_id = state.jobs[job_id].group
    if group_id >= 0:
        state.groups[group_id].admitted += 1


@entry
def schedule_ends(state: Any) -> None:
    """Schedule the ends of running jobs by their present `work_us`."""
    for job_id in range(len(state.jobs)):
        if state.runs[job_id].status == RUNNING:
            schedule_end(state, job_id)
