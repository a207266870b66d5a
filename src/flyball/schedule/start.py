"""Starting a job where `place.find` says, and writing that into the plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel, lowest_bit
from flyball.schedule.allocate import START, begin_slice, record, take_row, wakes
from flyball.schedule.place import (
    GATHERED,
    WHOLE_NODES,
    eligible,
    fit_node,
    is_cleared,
    lowest_devices,
    node_with,
    pick_fraction,
)

ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def give(
    state: Any, knobs: Any, job_id: int, node_id: int, mask: Any, after: int, now: int,
    reason: int, gain: float,
) -> int:  # fmt: skip
    """Take the devices of one node for the job and note it in the plan; returns the row."""
    record(state, START, job_id, node_id, mask, reason, gain)
    return take_row(state, knobs, job_id, node_id, mask, after, now)


@kernel
def next_node(state: Any, pool_id: int, fit: int, left: int, before: int, avoid: bool) -> int:
    """The node that gives a gang over several nodes its next devices."""
    pool = state.pools[pool_id]
    if fit == GATHERED:
        return fit_node(state, pool_id, 1, True, avoid)
    if fit == WHOLE_NODES:
        if left >= pool.capacity:
            return node_with(state, pool_id, pool.capacity, avoid)
        return fit_node(state, pool_id, left, False, avoid)
    node_id = max(before + 1, pool.first_node)
    while not is_cleared(state, node_id):
        node_id += 1
    return int(node_id)


@kernel
def start(
    state: Any, knobs: Any, job_id: int, pool_id: int, fit: int, avoid: bool, now: int,
    reason: int, gain: float,
) -> None:  # fmt: skip
    """Start a job in a pool, where it was found to fit."""
    job = state.jobs[job_id]
    woken = False
    nodes = 0
    row = -1
    left = job.devices
    node_id = fit
    while left > 0:
        if fit < 0:
            node_id = next_node(state, pool_id, fit, left, node_id, avoid)
        node = state.nodes[node_id]
        count = left
        if job.milli == MILLI_PER_DEVICE:
            count = min(left, node.free)
        woken = wakes(state, knobs, node_id, now) or woken
        if job.milli < MILLI_PER_DEVICE:
            mask = pick_fraction(state, node, count, job.milli, job.memory_mib)[0]
        else:
            mask = lowest_devices(node.free_mask, count)
        row = give(state, knobs, job_id, node_id, mask, row, now, reason, gain)
        nodes += 1
        left -= count
    begin_slice(state, knobs, job_id, pool_id, nodes, woken, now)


@kernel
def start_as_planned(state: Any, knobs: Any, first: int, now: int) -> int:
    """Start a job on exactly the rows of a plan from index `first`; returns the next index.

    This is how a plan made on a copy of the state is carried out on the state itself.
    """
    plan, count = state.plan, state.clock[0].actions
    job_id = plan[first].job
    at, nodes, row, woken = first, 0, -1, False
    while at < count and plan[at].kind == START and plan[at].job == job_id:
        node_id = plan[at].node
        woken = wakes(state, knobs, node_id, now) or woken
        row = take_row(state, knobs, job_id, node_id, plan[at].mask, row, now)
        nodes += 1
        at += 1
    pool_id = state.nodes[plan[first].node].pool
    begin_slice(state, knobs, job_id, pool_id, nodes, woken, now)
    return at


@kernel
def can_start_as_planned(state: Any, first: int) -> bool:
    """Whether the rows of a plan from index `first` are a possible start of their job."""
    plan, count = state.plan, state.clock[0].actions
    job_id = plan[first].job
    job = state.jobs[job_id]
    pool_id = state.nodes[plan[first].node].pool
    if (state.shapes[job.shape_id].pools >> np.uint64(pool_id)) & ONE == ZERO:
        return False
    devices, before = 0, -1
    at = first
    while at < count and plan[at].kind == START and plan[at].job == job_id:
        action = plan[at]
        node = state.nodes[action.node]
        if node.pool != pool_id or node.down or action.node == before or action.mask == ZERO:
            return False
        if action.milli != job.milli or not are_free(state, node, job, action.mask):
            return False
        devices += bit_count(action.mask)
        before = action.node
        at += 1
    return bool(devices == job.devices)


@kernel
def are_free(state: Any, node: Any, job: Any, mask: Any) -> bool:
    """Whether each device of the mask has room for the job's share."""
    shared = mask & ~node.free_mask
    if job.milli == MILLI_PER_DEVICE:
        return bool(shared == ZERO)
    if shared & ~node.open_mask != ZERO:
        return False
    while shared != ZERO:
        if not eligible(state, node, lowest_bit(shared), job.milli, job.memory_mib):
            return False
        shared &= shared - ONE
    return True
