"""Changes while jobs run: speed, cap and neighbours of jobs, and sleep of idle nodes."""

from __future__ import annotations

import math
from typing import Any

from flyball.core.codes import ActionKind, Status
from flyball.core.records import CAP_LEVELS
from flyball.core.units import FOREVER_US
from flyball.physics.compile import hot, kernel
from flyball.physics.energy import asleep, touch
from flyball.schedule.allocate import release
from flyball.schedule.sharing import change_speed, next_sharer, slowed
from flyball.twin.events import END_EVENT, push_event

RUNNING = int(Status.RUNNING)
CAP, SLEEP, WAKE = int(ActionKind.CAP), int(ActionKind.SLEEP), int(ActionKind.WAKE)
BUDGET = int(ActionKind.BUDGET)


@kernel
def natural_end(job: Any, run_: Any) -> int:
    """Return when the running slice completes the job's work."""
    left_us = max(0.0, job.work_us - run_.done_us)
    return int(run_.ready_us + math.ceil(left_us / run_.rate))


@hot
def schedule_end(state: Any, job_id: int) -> None:
    """Schedule the true end of a slice that just began."""
    job, run_ = state.jobs[job_id], state.runs[job_id]
    run_.end_us = natural_end(job, run_)
    if job.limit_us > 0:
        run_.end_us = min(run_.end_us, run_.began_us + job.limit_us)
    push_event(state, run_.end_us, END_EVENT, job_id)


@kernel
def release_devices(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Release the devices of a job; jobs that shared its device speed up."""
    row = state.rows[state.runs[job_id].first_row]
    node_id, mask = row.node, row.mask
    release(state, knobs, job_id, now)
    if len(state.pairs) > 0:
        update_shared_speeds(state, node_id, mask, now)


@kernel
def update_shared_speeds(state: Any, node_id: int, mask: Any, now: int) -> None:
    """Update the speed of all jobs on a device after one came or left."""
    job_id = next_sharer(state, node_id, mask, -1)
    while job_id >= 0:
        run_ = state.runs[job_id]
        slow = slowed(state, job_id, node_id, mask) if run_.devices == 1 else 1.0
        if slow != run_.slow:
            change_speed(state, job_id, run_.cap, slow, now)
            schedule_end(state, job_id)
        job_id = next_sharer(state, node_id, mask, job_id)


@kernel
def adjust(state: Any, knobs: Any, at: int, now: int) -> bool:
    """Carry out an action that is no start and no stop; return whether it was possible."""
    action = state.plan[at]
    if action.kind == CAP:
        return set_cap(state, action.job, max(action.level, knobs.cap), now)
    if action.kind == SLEEP or action.kind == WAKE:
        return set_sleep(state, action.node, action.kind == SLEEP, now)
    if action.kind == BUDGET:
        state.clock[0].budget_w = action.gain
        return True
    return False


@kernel
def set_cap(state: Any, job_id: int, level: int, now: int) -> bool:
    """Continue a running job under another cap; return whether that was possible."""
    run_ = state.runs[job_id]
    if run_.status != RUNNING or run_.first_row < 0 or not 0 <= level < CAP_LEVELS:
        return False
    if level != run_.cap:
        change_speed(state, job_id, level, run_.slow, now)
        schedule_end(state, job_id)
    return True


@kernel
def set_sleep(state: Any, node_id: int, to_sleep: bool, now: int) -> bool:
    """Send an idle node to sleep, or wake it for good; return whether that was possible."""
    node = state.nodes[node_id]
    pool = state.pools[node.pool]
    if node.down or node.idle_since_us < 0:
        return False
    touch(state, node_id, now)
    if to_sleep:
        node.sleeps_us = min(node.sleeps_us, now)
        return True
    if asleep(node, now):
        node.awake_us = now + pool.wake_us
    node.sleeps_us = FOREVER_US
    return True
