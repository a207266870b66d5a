"""Jobs that share a device, and speeds that change while a job runs.

One job holds the device, the others are its guests: their rows take nothing of its capacity, and
one of them holds it next. The speed of each depends on the other jobs on the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel
from flyball.physics.energy import touch
from flyball.schedule.allocate import forget, held_w, own_w, slice_rate
from flyball.schedule.order import progress
from flyball.schedule.slices import account

ZERO = np.uint64(0)


@kernel
def speed_beside(state: Any, pool_id: int, job_id: int, other_id: int) -> float:
    """Return a job's speed, relative to alone, with another on its device; 0 = not possible."""
    profiles = len(state.rates) // len(state.pools)
    mine, other = state.jobs[job_id].profile, state.jobs[other_id].profile
    return float(state.pairs[(pool_id * profiles + mine) * profiles + other])


@kernel
def may_join(state: Any, job_id: int, node_id: int, mask: Any) -> bool:
    """Return whether a job can be a guest on a device that one-device jobs hold entirely."""
    job, node = state.jobs[job_id], state.nodes[node_id]
    if len(state.pairs) == 0 or bit_count(mask) != 1 or job.milli != MILLI_PER_DEVICE:
        return False
    memory_mib, held = job.memory_mib, False
    row_id = node.first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if row.mask & mask != ZERO:
            if row.mask != mask or state.runs[row.job].devices != 1:
                return False
            if speed_beside(state, node.pool, job_id, row.job) <= 0.0:
                return False
            if speed_beside(state, node.pool, row.job, job_id) <= 0.0:
                return False
            memory_mib += state.jobs[row.job].memory_mib
            held = held or row.milli == MILLI_PER_DEVICE
        row_id = row.sibling
    return bool(held and memory_mib <= state.pools[node.pool].memory_mib)


@kernel
def next_sharer(state: Any, node_id: int, mask: Any, after: int) -> int:
    """Return the job of lowest index above `after` on these devices; -1 = none."""
    lowest = -1
    row_id = state.nodes[node_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if row.mask & mask != ZERO and row.job > after and (lowest < 0 or row.job < lowest):
            lowest = row.job
        row_id = row.sibling
    return int(lowest)


@kernel
def slowed(state: Any, job_id: int, node_id: int, mask: Any) -> float:
    """Return the speed of a job among those on its device now, relative to alone."""
    slow, other_id = 1.0, next_sharer(state, node_id, mask, -1)
    while other_id >= 0:
        if other_id != job_id:
            slow *= speed_beside(state, state.nodes[node_id].pool, job_id, other_id)
        other_id = next_sharer(state, node_id, mask, other_id)
    return float(slow)


@kernel
def change_speed(state: Any, job_id: int, cap: int, slow: float, now: int) -> None:
    """Change the cap or the slowdown of a running job; the caller must update its end.

    The progress so far counts as saved.
    """
    run, clock = state.runs[job_id], state.clock[0]
    account(state, job_id, now)
    run.done_us += progress(run, now)
    run.since_us, run.ready_us = now, max(run.ready_us, now)
    add_power(state, job_id, -1.0, now)
    run.cap, run.slow = cap, slow
    run.rate = slice_rate(state, job_id)
    run.watts = own_w(state, state.jobs[job_id], run.pool, cap, run.devices) * slow
    add_power(state, job_id, 1.0, now)
    clock.peak_power_w = max(clock.peak_power_w, clock.power_w)


@kernel
def add_power(state: Any, job_id: int, sign: float, now: int) -> None:
    """Add the draw of a running job to its nodes and the cluster, or subtract it (sign -1)."""
    row_id = state.runs[job_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        node = state.nodes[row.node]
        touch(state, row.node, now)
        added = sign * held_w(state, job_id, bit_count(row.mask))
        node.power_w += added
        state.clock[0].power_w += added
        forget(state.avail, state.scores, row.node)
        row_id = row.next
