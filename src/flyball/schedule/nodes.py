"""Finds one node for a job: with enough devices and host capacity, and which devices of it.

Reads capacity, changes nothing. Nodes for jobs that ask nothing of hosts are found by bitmaps
alone; for the others the nodes of a bitmap are checked one by one. Functions called for every
node take records, not the state: passing all its arrays would cost more than the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import highest_bit, kernel, lowest_bit
from flyball.schedule import index
from flyball.schedule.host import asks_host, has_room

ONE = np.uint64(1)
ZERO = np.uint64(0)

NOWHERE = -1
WHOLE_NODES = -2  # over several nodes, all but the last entirely
GATHERED = -3  # over several nodes, wherever devices are free
CLEARED = -4  # over the nodes that a preemption cleared for it
"""Values of a fit that is not the index of a node."""


@kernel
def lowest_devices(mask: Any, count: int) -> Any:
    """Return a mask of the `count` lowest set bits of a mask."""
    rest = mask
    for _ in range(count):
        rest &= rest - ONE
    return mask & ~rest


@kernel
def kept_back(state: Any, node_id: int) -> bool:
    """Return whether the node is part of the head's reservation."""
    return bool(state.nodes[node_id].reserved_stamp == state.clock[0].reserved_stamp)


@kernel
def is_cleared(state: Any, node_id: int) -> bool:
    """Return whether a preemption clears this node for the current job."""
    scratch = state.node_scratch[node_id]
    return bool(scratch.stamp == state.clock[0].stamp and scratch.value == CLEARED)


@kernel
def usable(node: Any, clock: Any, shape: Any, count: int, devices: int, avoid: bool) -> bool:
    """Return whether a node is allowed and its host has room for `count` of a gang's devices."""
    if avoid and node.reserved_stamp == clock.reserved_stamp:
        return False
    return has_room(node, shape, count, devices)


@kernel
def node_with(state: Any, pool_id: int, job: Any, free: int, count: int, avoid: bool) -> int:
    """Return the lowest usable node of the pool with exactly `free` whole devices, or NOWHERE."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    local = index.lowest(state.bitmaps, pool, free)
    if avoid or asks_host(shape):
        while local >= 0:
            node = state.nodes[pool.first_node + local]
            if usable(node, clock, shape, count, job.devices, avoid):
                break
            local = index.next_after(state.bitmaps, pool, free, local)
    return int(pool.first_node + local) if local >= 0 else NOWHERE


@kernel
def fit_node(state: Any, pool_id: int, job: Any, count: int, emptiest: bool, avoid: bool) -> int:
    """Return the fullest, or the emptiest, node with `count` whole free devices, or NOWHERE."""
    counts = index.free_counts(state.bitmaps, state.pools[pool_id], count)
    while counts != ZERO:
        above = highest_bit(counts) if emptiest else lowest_bit(counts)
        node_id = node_with(state, pool_id, job, count + above, count, avoid)
        if node_id >= 0:
            return int(node_id)
        counts &= ~(ONE << np.uint64(above))
    return NOWHERE


@kernel
def fit_host(state: Any, pool_id: int, job: Any, emptiest: bool, avoid: bool) -> int:
    """Return the fullest, or the emptiest, node for a job without devices, or NOWHERE."""
    capacity = state.pools[pool_id].capacity
    for step in range(capacity + 1):
        free = capacity - step if emptiest else step
        node_id = node_with(state, pool_id, job, free, 0, avoid)
        if node_id >= 0:
            return int(node_id)
    return NOWHERE


@kernel
def count_nodes(state: Any, pool_id: int, free: int, avoid: bool) -> int:
    """Count the nodes with exactly `free` whole devices."""
    pool = state.pools[pool_id]
    if not avoid:
        return int(state.bitmaps[index.base_of(pool, free)])
    count = 0
    local = index.next_after(state.bitmaps, pool, free, -1)
    while local >= 0:
        if not kept_back(state, pool.first_node + local):
            count += 1
        local = index.next_after(state.bitmaps, pool, free, local)
    return count


@kernel
def eligible(devices: Any, node: Any, at: int, job: Any) -> bool:
    """Return whether an open device has room for a fractional job."""
    device = devices[node.first_device + at]
    return bool(device.free_milli >= job.milli and device.free_mib >= job.memory_mib)


@kernel
def pick_fraction(devices: Any, node: Any, job: Any) -> tuple:  # type: ignore[type-arg]
    """Pick the devices of a node for a fractional job: smallest remainders first.

    Returns:
        (mask, sum of their free milli, whether one of them is open); mask 0 if too few fit.
    """
    chosen = ZERO
    total = 0
    with_open = False
    for _ in range(job.devices):
        best, least = -1, MILLI_PER_DEVICE + 1
        rest = (node.free_mask | node.open_mask) & ~chosen
        while rest != ZERO:
            at = lowest_bit(rest)
            bit = ONE << np.uint64(at)
            rest &= ~bit
            left = MILLI_PER_DEVICE
            if node.open_mask & bit != ZERO:
                if not eligible(devices, node, at, job):
                    continue
                left = devices[node.first_device + at].free_milli
            if left < least:
                best, least = at, left
        if best < 0:
            return ZERO, 0, False
        bit = ONE << np.uint64(best)
        chosen |= bit
        total += least
        with_open = with_open or node.open_mask & bit != ZERO
    return chosen, total, with_open


@kernel
def fit_open(state: Any, pool_id: int, job: Any, avoid: bool) -> int:
    """Return the node whose open devices this fractional job would fill best, or NOWHERE."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    picky = avoid or asks_host(shape)
    best, least = NOWHERE, 0
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node = state.nodes[node_id]
        if node.down or node.open_mask == ZERO:
            continue
        if picky and not usable(node, clock, shape, job.devices, job.devices, avoid):
            continue
        mask, total, with_open = pick_fraction(state.devices, node, job)
        if mask != ZERO and with_open and (best == NOWHERE or total < least):
            best, least = node_id, total
    return int(best)


@kernel
def fits_on(devices: Any, node: Any, shape: Any, job: Any) -> bool:
    """Return whether the whole job fits on this node now."""
    if node.down or not has_room(node, shape, job.devices, job.devices):
        return False
    count = node.free
    if job.milli < MILLI_PER_DEVICE and count < job.devices:
        rest = node.open_mask
        while rest != ZERO:
            if eligible(devices, node, lowest_bit(rest), job):
                count += 1
            rest &= rest - ONE
    return bool(count >= job.devices)
