"""Where a job fits: in a pool, on a node, on which devices. Reads capacity, changes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyball.core.knobs import Place, Span
from flyball.core.units import MILLI_PER_DEVICE, POWER_SLACK
from flyball.physics.compile import highest_bit, kernel, lowest_bit
from flyball.schedule import index
from flyball.schedule.allocate import extra_w, own_w, rate_of
from flyball.schedule.order import guess

ONE = np.uint64(1)
ZERO = np.uint64(0)
BEST_FIT, PACK, SPREAD = int(Place.BEST_FIT), int(Place.PACK), int(Place.SPREAD)
FASTEST, EFFICIENT, HOLD = int(Place.FASTEST), int(Place.EFFICIENT), int(Place.HOLD)
SPAN_ANY = int(Span.ANY)

NOWHERE = -1
WHOLE_NODES = -2  # over several nodes, all but the last entirely
GATHERED = -3  # over several nodes, wherever devices are free
CLEARED = -4  # over the nodes that a preemption cleared for it
"""A fit is a node's index or one of these."""


@kernel
def lowest_devices(mask: Any, count: int) -> Any:
    """The `count` lowest set bits of a mask."""
    rest = mask
    for _ in range(count):
        rest &= rest - ONE
    return mask & ~rest


@kernel
def kept_back(state: Any, node_id: int) -> bool:
    """Whether the node is part of the head's reservation."""
    return bool(state.nodes[node_id].reserved_stamp == state.clock[0].reserved_stamp)


@kernel
def node_with(state: Any, pool_id: int, free: int, avoid: bool) -> int:
    """The lowest node of the pool with exactly `free` whole devices, or NOWHERE."""
    pool = state.pools[pool_id]
    local = index.lowest(state.bitmaps, pool, free)
    while avoid and local >= 0 and kept_back(state, pool.first_node + local):
        local = index.next_after(state.bitmaps, pool, free, local)
    return int(pool.first_node + local) if local >= 0 else NOWHERE


@kernel
def fit_node(state: Any, pool_id: int, devices: int, emptiest: bool, avoid: bool) -> int:
    """One node with that many whole free devices: the fullest such node, or the emptiest."""
    counts = index.free_counts(state.bitmaps, state.pools[pool_id], devices)
    while counts != ZERO:
        above = highest_bit(counts) if emptiest else lowest_bit(counts)
        node_id = node_with(state, pool_id, devices + above, avoid)
        if node_id >= 0:
            return int(node_id)
        counts &= ~(ONE << np.uint64(above))
    return NOWHERE


@kernel
def count_nodes(state: Any, pool_id: int, free: int, avoid: bool) -> int:
    """How many nodes have exactly `free` whole devices."""
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
def fits_whole_nodes(state: Any, pool_id: int, devices: int, avoid: bool) -> bool:
    """Whether a gang larger than a node finds empty nodes, and room for its remainder."""
    capacity = state.pools[pool_id].capacity
    rest = devices % capacity
    empty = count_nodes(state, pool_id, capacity, avoid)
    if empty < devices // capacity:
        return False
    if rest == 0 or empty > devices // capacity:
        return True
    for free in range(rest, capacity):
        if node_with(state, pool_id, free, avoid) >= 0:
            return True
    return False


@kernel
def fits_gathered(state: Any, pool_id: int, devices: int, avoid: bool) -> bool:
    """Whether the pool has that many whole free devices in all."""
    total = 0
    for free in range(1, state.pools[pool_id].capacity + 1):
        total += free * count_nodes(state, pool_id, free, avoid)
    return total >= devices


@kernel
def eligible(state: Any, node: Any, at: int, milli: int, memory_mib: int) -> bool:
    """Whether an open device has room for this fraction."""
    device = state.devices[node.first_device + at]
    return bool(device.free_milli >= milli and device.free_mib >= memory_mib)


@kernel
def pick_fraction(state: Any, node: Any, devices: int, milli: int, memory_mib: int) -> tuple:  # type: ignore[type-arg]
    """The devices of a node for a fractional job: smallest remainders first.

    Returns:
        (mask, sum of their free milli, whether one of them is open); mask 0 if too few.
    """
    chosen = ZERO
    total = 0
    with_open = False
    for _ in range(devices):
        best, least = -1, MILLI_PER_DEVICE + 1
        rest = (node.free_mask | node.open_mask) & ~chosen
        while rest != ZERO:
            at = lowest_bit(rest)
            bit = ONE << np.uint64(at)
            rest &= ~bit
            left = MILLI_PER_DEVICE
            if node.open_mask & bit != ZERO:
                if not eligible(state, node, at, milli, memory_mib):
                    continue
                left = state.devices[node.first_device + at].free_milli
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
    """The node whose open devices this fractional job fills best, or NOWHERE."""
    pool = state.pools[pool_id]
    best, least = NOWHERE, 0
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node = state.nodes[node_id]
        if node.down or node.open_mask == ZERO or (avoid and kept_back(state, node_id)):
            continue
        mask, total, with_open = pick_fraction(state, node, job.devices, job.milli, job.memory_mib)
        if mask != ZERO and with_open and (best == NOWHERE or total < least):
            best, least = node_id, total
    return int(best)


@kernel
def fit_pool(state: Any, knobs: Any, job: Any, pool_id: int, avoid: bool) -> tuple:  # type: ignore[type-arg]
    """Where in one pool a job fits, and whether that is a single node of whole devices.

    Returns:
        (node, WHOLE_NODES, GATHERED or NOWHERE; True if the number of devices left there
        is what the place rule should compare).
    """
    emptiest = knobs.place == SPREAD
    if job.milli < MILLI_PER_DEVICE:
        node_id = fit_open(state, pool_id, job, avoid)
        if node_id >= 0:
            return node_id, False
        return fit_node(state, pool_id, job.devices, emptiest, avoid), True
    if job.devices <= state.pools[pool_id].capacity:
        node_id = fit_node(state, pool_id, job.devices, emptiest, avoid)
        if node_id >= 0:
            return node_id, True
    elif fits_whole_nodes(state, pool_id, job.devices, avoid):
        return WHOLE_NODES, False
    if knobs.span == SPAN_ANY and fits_gathered(state, pool_id, job.devices, avoid):
        return GATHERED, False
    return NOWHERE, False


@kernel
def score(state: Any, knobs: Any, job: Any, pool_id: int, node_id: int, plain: bool) -> float:
    """What the place rule compares between pools; least is best."""
    if knobs.place >= FASTEST:
        rate = rate_of(state, job, pool_id, knobs.cap, False)
        return own_w(state, job, pool_id, knobs.cap) / rate if knobs.place == EFFICIENT else -rate
    if not plain:
        return -1e9 if knobs.place == SPREAD else 0.0
    free = state.nodes[node_id].free
    if knobs.place == BEST_FIT:
        return float(free - job.devices)
    if knobs.place == PACK:
        return float(free - state.pools[pool_id].capacity)
    return float(-free)


@kernel
def is_cleared(state: Any, node_id: int) -> bool:
    """Whether a preemption clears this node for the job at hand."""
    scratch = state.node_scratch[node_id]
    return bool(scratch.stamp == state.clock[0].stamp and scratch.value == CLEARED)


@kernel
def within_budget(state: Any, knobs: Any, job: Any, pool_id: int, power_w: float) -> bool:
    """Whether the power budget allows the job to start in the pool on top of `power_w`."""
    clock = state.clock[0]
    if clock.budget_w <= 0.0:
        return True
    added = extra_w(state, job, pool_id, knobs.cap, job.devices)
    return bool(power_w + added <= clock.budget_w * POWER_SLACK)


@kernel
def would_delay_head(
    state: Any, knobs: Any, job: Any, left_us: float, restart_us: int, pool_id: int, now: int
) -> bool:
    """Whether the job, in the reserved pool, is expected to run past the reserved instant."""
    clock = state.clock[0]
    if clock.reserved_pool != pool_id:
        return False
    run_us = math.ceil(left_us / rate_of(state, job, pool_id, knobs.cap, False))
    return bool(now + restart_us + run_us > clock.reserved_us)


@kernel
def slowest_worth_using(state: Any, knobs: Any, job: Any, left_us: float, pools: Any) -> float:
    """place = hold: the longest acceptable run time, from the fastest pool it could run on."""
    best = 0.0
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        best = max(best, rate_of(state, job, pool_id, knobs.cap, False))
    return float(left_us / best + knobs.hold_us)


@kernel
def find(state: Any, knobs: Any, job_id: int, respect_head: bool, now: int) -> tuple:  # type: ignore[type-arg]
    """Where the job should start now.

    Args:
        respect_head: do not delay the reservation of the head.

    Returns:
        (pool or -1, node or WHOLE_NODES or GATHERED, whether reserved nodes must be avoided).
    """
    job, run = state.jobs[job_id], state.runs[job_id]
    left_us = guess(job, run.done_us) - run.done_us
    restart_us = job.restart_us if run.attempt > 0 else 0
    return find_for(state, knobs, job, left_us, restart_us, respect_head, now)


@kernel
def find_for(
    state: Any, knobs: Any, job: Any, left_us: float, restart_us: int, respect_head: bool, now: int
) -> tuple:  # type: ignore[type-arg]
    """`find` for a job like this one with so much left."""
    pools = state.shapes[job.shape_id].pools
    power_w = state.clock[0].power_w
    longest_us = 0.0
    if knobs.place == HOLD:
        longest_us = slowest_worth_using(state, knobs, job, left_us, pools)
    best_pool, best_node, best_avoid, best_score = -1, NOWHERE, False, 0.0
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        avoid = respect_head and would_delay_head(
            state, knobs, job, left_us, restart_us, pool_id, now
        )
        node_id, plain = fit_pool(state, knobs, job, pool_id, avoid)
        if node_id == NOWHERE or not within_budget(state, knobs, job, pool_id, power_w):
            continue
        if knobs.place == HOLD:
            if left_us / rate_of(state, job, pool_id, knobs.cap, False) > longest_us:
                continue
        value = score(state, knobs, job, pool_id, node_id, plain)
        if best_pool < 0 or value < best_score:
            best_pool, best_node, best_avoid, best_score = pool_id, node_id, avoid, value
    return best_pool, best_node, best_avoid
