"""place = fgd: fragmentation gradient descent (Weng et al., USENIX ATC 2023).

A node's fragmentation is the free capacity of its devices that typical jobs cannot use: for a
typical job that the node cannot run now, all of it; for one that it can, the devices with too
little left. `fragments` sums that over `state.usual`, each kind weighted by how often it occurs,
so it is an integer and the order of summation does not matter. A job goes where it adds least
fragmentation; the increase is rounded to a level, as its authors do.

`state.scores` caches each shape's score on each node and, in its last row, each node's
fragmentation; `allocate.forget` marks a node's column STALE when something on the node changes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyball.core.state import STALE
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel, lowest_bit
from flyball.schedule.gang import list_gang
from flyball.schedule.host import share_of
from flyball.schedule.nodes import (
    NOWHERE,
    eligible,
    fits_on,
    kept_back,
    lowest_devices,
    pick_fraction,
)

ONE = np.uint64(1)
ZERO = np.uint64(0)
LEVEL = 1 << 44
"""Unit of the level in a score: level * LEVEL + free milli of the node * MILLI + millicores."""
MILLI = 1 << 28
FINER = 1000
BORDERS = np.array(
    [math.ceil(MILLI_PER_DEVICE * FINER * math.log(k / (100 - k))) for k in range(1, 100)]
)
"""Thresholds of the levels, in 1/FINER of a milli.

k of them are passed if 100 / (1 + e^(increase in devices)) >= k.
"""
NOT_HERE = 1 << 62
"""Score of a node where the job does not fit: larger than any other."""


@kernel
def fragments(
    usual: Any, devices: Any, node: Any, taken: Any, milli: int, cpu_milli: int, host_mib: int
) -> int:  # fmt: skip
    """Return the fragmentation of a node after it gave `milli` of each device in `taken`.

    Args:
        cpu_milli, host_mib: what its host would then have free.
    """
    part = MILLI_PER_DEVICE - milli
    whole, begun = bit_count(node.free_mask & ~taken), bit_count(node.free_mask & taken)
    free = whole * MILLI_PER_DEVICE + begun * part
    rest = node.open_mask
    while rest != ZERO:
        free += left_on(devices, node, lowest_bit(rest), taken, milli)
        rest &= rest - ONE
    if free == 0:
        return 0
    total, asked, enough, too_small = 0, -1, 0, 0
    for at in range(len(usual)):
        kind = usual[at]
        if kind.milli != asked:  # kinds come in order of their share of a device
            asked = kind.milli
            enough, too_small = whole, 0
            if part >= asked:
                enough += begun
            else:
                too_small = begun * part
            rest = node.open_mask
            while rest != ZERO:
                left = left_on(devices, node, lowest_bit(rest), taken, milli)
                if left >= asked:
                    enough += 1
                else:
                    too_small += left
                rest &= rest - ONE
        runs = enough >= kind.devices and cpu_milli >= kind.cpu_milli and host_mib >= kind.host_mib
        if runs and (kind.pools >> np.uint64(node.pool)) & ONE != ZERO:
            total += kind.count * too_small
        else:
            total += kind.count * free
    return total


@kernel
def left_on(devices: Any, node: Any, at: int, taken: Any, milli: int) -> int:
    """Return the thousandths that an open device would have left."""
    left = devices[node.first_device + at].free_milli
    if (taken >> np.uint64(at)) & ONE != ZERO:
        left -= milli
    return int(left)


@kernel
def increase(state: Any, job: Any, node_id: int, taken: Any) -> int:
    """Return how much the node's fragmentation grows if the job takes these devices."""
    node, shape = state.nodes[node_id], state.shapes[job.shape_id]
    usual, devices = state.usual, state.devices
    count = bit_count(taken)
    cpu_milli = node.free_cpu_milli - share_of(shape.cpu_milli, count, job.devices)
    host_mib = node.free_host_mib - share_of(shape.host_mib, count, job.devices)
    after = fragments(usual, devices, node, taken, job.milli, cpu_milli, host_mib)
    last = len(state.scores) - 1
    if last >= 0 and state.scores[last, node_id] != STALE:
        return after - int(state.scores[last, node_id])
    before = fragments(usual, devices, node, ZERO, 0, node.free_cpu_milli, node.free_host_mib)
    if last >= 0:
        state.scores[last, node_id] = before
    return after - before


@kernel
def level_of(usual: Any, growth: int) -> int:
    """Return the level of an increase, 0 (best) to 99, by the thresholds in `BORDERS`.

    Increases are sums over all typical jobs; the thresholds are for one job.
    """
    jobs = usual[len(usual) - 1].covered if len(usual) > 0 else 0
    low, high = 0, len(BORDERS)
    while low < high:
        middle = (low + high) // 2
        if -growth * FINER >= BORDERS[middle] * jobs:
            low = middle + 1
        else:
            high = middle
    return len(BORDERS) - low


@kernel
def least_devices(state: Any, job: Any, node_id: int) -> tuple:  # type: ignore[type-arg]
    """Return the least fragmenting devices of a node on which the job fits: (mask, level)."""
    node = state.nodes[node_id]
    if job.milli == MILLI_PER_DEVICE:
        mask = lowest_devices(node.free_mask, job.devices)
        return mask, level_of(state.usual, increase(state, job, node_id, mask))
    if job.devices > 1:
        mask = pick_fraction(state.devices, node, job)[0]
        return mask, level_of(state.usual, increase(state, job, node_id, mask))
    best, least, least_left = ZERO, len(BORDERS) + 1, 0
    rest = node.open_mask | lowest_devices(node.free_mask, min(1, node.free))
    while rest != ZERO:
        at = lowest_bit(rest)
        bit = ONE << np.uint64(at)
        rest &= ~bit
        left = MILLI_PER_DEVICE
        if node.open_mask & bit != ZERO:
            if not eligible(state.devices, node, at, job):
                continue
            left = state.devices[node.first_device + at].free_milli
        level = level_of(state.usual, increase(state, job, node_id, bit))
        if level < least or (level == least and left < least_left):
            best, least, least_left = bit, level, left
    return best, least


@kernel
def score_on(state: Any, job: Any, node_id: int) -> int:
    """Return the job's score on a node, smallest is best; cached if the state has a cache."""
    node, is_cached = state.nodes[node_id], len(state.scores) > 0
    if is_cached and state.scores[job.shape_id, node_id] != STALE:
        return int(state.scores[job.shape_id, node_id])
    score = NOT_HERE
    if fits_on(state.devices, node, state.shapes[job.shape_id], job):
        free_milli = state.pools[node.pool].capacity * MILLI_PER_DEVICE - node.used_milli
        level = least_devices(state, job, node_id)[1]
        score = int(level) * LEVEL + int(free_milli) * MILLI + int(node.free_cpu_milli)
    if is_cached:
        state.scores[job.shape_id, node_id] = score
    return score


@kernel
def least_fragmenting(state: Any, job: Any, pool_id: int, avoid: bool) -> int:
    """Return the node of the pool with the smallest score, or NOWHERE."""
    pool, scores, shape_id = state.pools[pool_id], state.scores, job.shape_id
    best, least = NOWHERE, NOT_HERE
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        # Most scores are cached: read here, since a call would cost more than the read.
        score = scores[shape_id, node_id] if len(scores) > 0 else STALE
        if score == STALE:
            score = score_on(state, job, node_id)
        if score < least and not (avoid and kept_back(state, node_id)):
            best, least = node_id, score
    return int(best)


@kernel
def gang_score(state: Any, job: Any, pool_id: int, fit: int, avoid: bool) -> int:
    """Return the score of a gang over several nodes: the level of its total increase."""
    growth = 0
    for at in range(state.clock[0].actions, list_gang(state, pool_id, job, fit, avoid)):
        action = state.plan[at]
        growth += increase(state, job, action.node, action.mask)
    return level_of(state.usual, growth) * LEVEL
