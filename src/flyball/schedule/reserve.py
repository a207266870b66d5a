"""The reservation of EASY backfill: when and where the head is expected to start.

`state.avail[k, node]` caches the instant at which k devices of the node are expected to be
wholly free (0 = they are now). Row 0 is when that may change: the earliest end expected there,
or STALE. Once that has passed, the column is recomputed: a job came, went or outlived its
estimate.

Behind the nodes' columns there is one for each block of nodes, the last block first: the least of
its nodes' values in every row, so that whole blocks can be skipped. Row 0 is kept up to date, the
others are computed on demand and STALE before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Reason
from flyball.core.state import BLOCK_BITS, STALE
from flyball.core.units import FOREVER_US
from flyball.physics.compile import kernel, lowest_bit
from flyball.schedule import heap
from flyball.schedule.allocate import fewest_nodes, record
from flyball.schedule.host import asks_host, room_us
from flyball.schedule.order import expected_end

RESERVE = int(ActionKind.RESERVE)
KEPT_FOR_HEAD = int(Reason.KEPT_FOR_HEAD)
BLOCK = 1 << BLOCK_BITS
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def refresh(state: Any, node_id: int, now: int) -> None:
    """Recompute the node's column of `avail`."""
    node = state.nodes[node_id]
    capacity = state.pools[node.pool].capacity
    avail = state.avail
    avail[0, node_id] = FOREVER_US
    ours = node.free_mask | node.open_mask
    row_id = node.first_row
    while row_id >= 0:
        ours |= state.rows[row_id].mask
        row_id = state.rows[row_id].sibling
    for at in range(1, capacity + 1):  # others never return theirs, as far as can be said
        is_there = ours >> np.uint64(at - 1) & ONE != ZERO and not node.down
        avail[at, node_id] = 0 if is_there else FOREVER_US
    row_id = node.first_row
    while row_id >= 0:
        row = state.rows[row_id]
        end = expected_end(state.jobs[row.job], state.runs[row.job], now)
        avail[0, node_id] = min(avail[0, node_id], end)
        rest = row.mask
        while rest != ZERO:
            at = lowest_bit(rest) + 1
            rest &= rest - ONE
            avail[at, node_id] = max(avail[at, node_id], end)
        row_id = row.sibling
    for i in range(2, capacity + 1):
        value = avail[i, node_id]
        at = i
        while at > 1 and avail[at - 1, node_id] > value:
            avail[at, node_id] = avail[at - 1, node_id]
            at -= 1
        avail[at, node_id] = value


@kernel
def refresh_pool(state: Any, pool_id: int, now: int) -> None:
    """Recompute the columns of `avail` that may have changed in a pool."""
    pool, avail = state.pools[pool_id], state.avail
    last = pool.first_node + pool.nodes - 1
    for block in range(pool.first_node >> BLOCK_BITS, (last >> BLOCK_BITS) + 1):
        if avail[0, avail.shape[1] - 1 - block] <= now:
            refresh_block(state, block, now)


@kernel
def refresh_block(state: Any, block: int, now: int) -> None:
    """Recompute the columns of `avail` that may have changed in a block of nodes, and its own."""
    avail = state.avail
    column = avail.shape[1] - 1 - block
    first, due_us = block << BLOCK_BITS, FOREVER_US
    for node_id in range(first, min(first + BLOCK, len(state.nodes))):
        if avail[0, node_id] <= now:
            refresh(state, node_id, now)
        due_us = min(due_us, avail[0, node_id])
    avail[0, column] = due_us
    for devices in range(1, len(avail)):
        avail[devices, column] = STALE


@kernel
def is_late(avail: Any, node_id: int, end: int, devices: int, limit_us: int, now: int) -> bool:
    """Return whether a whole block begins here of which no node has the devices before a limit.

    Args:
        end: the first node behind the pool, for whose nodes alone the answer is valid.
    """
    if node_id & (BLOCK - 1) != 0 or node_id + BLOCK > end or devices == 0:
        return False
    column = avail.shape[1] - 1 - (node_id >> BLOCK_BITS)
    if avail[devices, column] == STALE:
        least_us = FOREVER_US
        for at in range(node_id, node_id + BLOCK):
            least_us = min(least_us, avail[devices, at])
        avail[devices, column] = least_us
    return bool(max(now, avail[devices, column]) >= limit_us)


@kernel
def with_host_us(state: Any, job: Any, node_id: int, devices: int, now: int) -> int:
    """Return when the node is expected to have both the devices and the host capacity free."""
    if state.nodes[node_id].down:
        return FOREVER_US
    when = room_us(state, job, node_id, devices, now)
    return max(when, state.avail[devices, node_id]) if devices > 0 else int(when)


@kernel
def earliest_node(state: Any, job: Any, pool_id: int, now: int) -> tuple:  # type: ignore[type-arg]
    """Return when and where one node of the pool first has the devices: (instant, node)."""
    pool, on_host = state.pools[pool_id], asks_host(state.shapes[job.shape_id])
    best_us, best = FOREVER_US, -1
    node_id, end = pool.first_node, pool.first_node + pool.nodes
    while node_id < end:
        if is_late(state.avail, node_id, end, job.devices, best_us, now):
            node_id += BLOCK
            continue
        free_us = max(now, state.avail[job.devices, node_id])
        if on_host:
            free_us = with_host_us(state, job, node_id, job.devices, now)
        if free_us < best_us:
            best_us, best = free_us, node_id
        node_id += 1
    return best_us, best


@kernel
def earliest_nodes(state: Any, job: Any, pool_id: int, count: int, now: int) -> int:
    """Return the instant at which `count` nodes of the pool are wholly free.

    Leaves these nodes in `shortlist`, a heap with the latest on top.
    """
    pool, shortlist = state.pools[pool_id], state.shortlist
    on_host = asks_host(state.shapes[job.shape_id])
    capacity, local, end = pool.capacity, 0, pool.first_node + pool.nodes
    while local < pool.nodes:
        node_id = pool.first_node + local
        if local >= count and is_late(state.avail, node_id, end, capacity, -shortlist[0].key, now):
            local += BLOCK
            continue
        free_us = max(now, state.avail[capacity, node_id])
        if on_host:
            free_us = with_host_us(state, job, node_id, capacity, now)
        if local < count:
            heap.push(shortlist, 0, local, -free_us, -node_id)
        elif free_us < -shortlist[0].key:
            heap.sift_down(shortlist, 0, count, 0, -free_us, -node_id)
        local += 1
    return int(-shortlist[0].key)


@kernel
def keep_nodes(state: Any, job: Any, pool_id: int, count: int, now: int) -> None:
    """Reserve for the head the `count` nodes of the pool that are wholly free earliest."""
    earliest_nodes(state, job, pool_id, count, now)
    for at in range(count):
        keep_node(state, -state.shortlist[at].tie)


@kernel
def keep_node(state: Any, node_id: int) -> None:
    """Reserve a node for the head, and record that in the plan."""
    clock = state.clock[0]
    state.nodes[node_id].reserved_stamp = clock.reserved_stamp
    record(state, RESERVE, clock.reserved_job, node_id, ZERO, KEPT_FOR_HEAD, clock.reserved_us)


@kernel
def reserve_as_planned(state: Any, first: int) -> int:
    """Restore the reservation of a plan from index `first`; returns the next index."""
    plan, clock = state.plan, state.clock[0]
    drop_reservation(state)
    clock.reserved_job = plan[first].job
    if plan[first].node < 0:
        return first + 1
    clock.reserved_us = int(plan[first].gain)
    clock.reserved_pool = state.nodes[plan[first].node].pool
    at = first
    while at < clock.actions and plan[at].kind == RESERVE:
        state.nodes[plan[at].node].reserved_stamp = clock.reserved_stamp
        at += 1
    return at


@kernel
def reserve(state: Any, job_id: int, now: int) -> None:
    """Reserve the nodes where the head is expected to fit earliest."""
    job, clock = state.jobs[job_id], state.clock[0]
    clock.reserved_stamp += 1
    clock.reserved_job, clock.reserved_pool, clock.reserved_us = job_id, -1, FOREVER_US
    best_node = -1
    pools = state.shapes[job.shape_id].pools
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        refresh_pool(state, pool_id, now)
        pool = state.pools[pool_id]
        node_id = -1
        if job.devices <= pool.capacity:
            free_us, node_id = earliest_node(state, job, pool_id, now)
        else:
            count = fewest_nodes(job.devices, pool.capacity)
            free_us = earliest_nodes(state, job, pool_id, count, now)
        if free_us < clock.reserved_us:
            clock.reserved_us, clock.reserved_pool, best_node = free_us, pool_id, node_id
    if clock.reserved_pool < 0:  # fits nowhere while nodes are down
        record(state, RESERVE, job_id, -1, ZERO, KEPT_FOR_HEAD, 0.0)
        return
    if best_node >= 0:
        keep_node(state, best_node)
    else:
        count = fewest_nodes(job.devices, state.pools[clock.reserved_pool].capacity)
        keep_nodes(state, job, clock.reserved_pool, count, now)


@kernel
def drop_reservation(state: Any) -> None:
    """Drop the reservation."""
    clock = state.clock[0]
    clock.reserved_stamp += 1
    clock.reserved_job, clock.reserved_pool, clock.reserved_us = -1, -1, FOREVER_US
