"""Starts a job where `place.find` puts it, and writes the start into the plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.knobs import Place
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, hot, kernel, lowest_bit
from flyball.schedule.allocate import GUEST, START, begin_slice, record, take_row, waking_us
from flyball.schedule.gang import list_gang
from flyball.schedule.host import has_room
from flyball.schedule.nodes import eligible, lowest_devices, pick_fraction
from flyball.schedule.place_fgd import least_devices
from flyball.schedule.place_random import drawn_devices
from flyball.schedule.sharing import may_join

ONE = np.uint64(1)
ZERO = np.uint64(0)
FGD, RANDOM = int(Place.FGD), int(Place.RANDOM)


@kernel
def pick_shared(state: Any, knobs: Any, job: Any, node_id: int) -> Any:
    """Return the devices of a node that a fractional job takes; it must fit there."""
    if knobs.place == FGD:
        return least_devices(state, job, node_id)[0]
    if knobs.place == RANDOM:
        return drawn_devices(state, job, node_id)
    return pick_fraction(state.devices, state.nodes[node_id], job)[0]


@hot
def start(
    state: Any, knobs: Any, job_id: int, pool_id: int, fit: int, avoid: bool, now: int,
    reason: int, gain: float,
) -> None:  # fmt: skip
    """Start a job in a pool at the place where `find` saw that it fits."""
    job, plan, first = state.jobs[job_id], state.plan, state.clock[0].actions
    if fit < 0:
        for at in range(first, list_gang(state, pool_id, job, fit, avoid)):
            record(state, START, job_id, plan[at].node, plan[at].mask, reason, gain)
        start_as_planned(state, knobs, first, now)
        return
    if job.milli < MILLI_PER_DEVICE:
        mask = pick_shared(state, knobs, job, fit)
    else:
        mask = lowest_devices(state.nodes[fit].free_mask, job.devices)
    record(state, START, job_id, fit, mask, reason, gain)
    wait_us = waking_us(state, fit, now)
    state.runs[job_id].cap = knobs.cap
    take_row(state, knobs, job_id, fit, mask, -1, job.milli, now)
    begin_slice(state, knobs, job_id, pool_id, 1, job.devices, wait_us, now)


@kernel
def start_as_planned(state: Any, knobs: Any, first: int, now: int) -> int:
    """Start a job on exactly the rows of a plan from index `first`; returns the next index.

    A plan that was computed on a copy of the state is applied to the state itself in this way.
    """
    plan, count = state.plan, state.clock[0].actions
    job_id = plan[first].job
    at, nodes, devices, row, wait_us = first, 0, 0, -1, 0
    state.runs[job_id].cap = max(knobs.cap, plan[first].level)
    while at < count and plan[at].kind == START and plan[at].job == job_id:
        node_id = plan[at].node
        wait_us = max(wait_us, waking_us(state, node_id, now))
        row = take_row(state, knobs, job_id, node_id, plan[at].mask, row, plan[at].milli, now)
        nodes += 1
        devices += bit_count(plan[at].mask)
        at += 1
    pool_id = state.nodes[plan[first].node].pool
    begin_slice(state, knobs, job_id, pool_id, nodes, devices, wait_us, now)
    return at


@kernel
def can_start_as_planned(state: Any, first: int) -> bool:
    """Return whether the rows of a plan from index `first` are a valid start of their job."""
    plan, count = state.plan, state.clock[0].actions
    job_id = plan[first].job
    job = state.jobs[job_id]
    shape = state.shapes[job.shape_id]
    pool_id = state.nodes[plan[first].node].pool
    if (shape.pools >> np.uint64(pool_id)) & ONE == ZERO:
        return False
    devices, before = 0, -1
    at = first
    while at < count and plan[at].kind == START and plan[at].job == job_id:
        action = plan[at]
        node = state.nodes[action.node]
        here = bit_count(action.mask)
        if node.pool != pool_id or node.down or action.node == before:
            return False
        if (here == 0 and job.devices > 0) or not has_room(node, shape, here, job.devices):
            return False
        if action.milli == GUEST:
            if not may_join(state, job_id, action.node, action.mask):
                return False
        elif action.milli != job.milli or not are_free(state.devices, node, job, action.mask):
            return False
        devices += here
        before = action.node
        at += 1
    return has_right_size(state, job, devices) and (devices > 0 or at == first + 1)


@kernel
def has_right_size(state: Any, job: Any, devices: int) -> bool:
    """Return whether the job may run on this number of devices."""
    if job.curve < 0:
        return bool(devices == job.devices)
    sizes = state.ranges[job.curve]
    return bool(sizes.least <= devices <= sizes.most)


@kernel
def are_free(devices: Any, node: Any, job: Any, mask: Any) -> bool:
    """Return whether each device of the mask has room for the job's share."""
    shared = mask & ~node.free_mask
    if job.milli == MILLI_PER_DEVICE:
        return bool(shared == ZERO)
    if shared & ~node.open_mask != ZERO:
        return False
    while shared != ZERO:
        if not eligible(devices, node, lowest_bit(shared), job):
            return False
        shared &= shared - ONE
    return True
