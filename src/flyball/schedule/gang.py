"""Places a gang on several nodes: whether it fits, and how many devices each node gives."""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel
from flyball.schedule import index
from flyball.schedule.host import asks_host, most_carried
from flyball.schedule.nodes import (
    GATHERED,
    WHOLE_NODES,
    is_cleared,
    kept_back,
    lowest_devices,
    node_with,
    usable,
)


@kernel
def count_usable(state: Any, pool_id: int, job: Any, free: int, count: int, avoid: bool) -> int:
    """Count the nodes with exactly `free` whole devices and host room for `count` of the job's."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    if not avoid and not asks_host(shape):
        return int(state.bitmaps[index.base_of(pool, free)])
    nodes = 0
    local = index.next_after(state.bitmaps, pool, free, -1)
    while local >= 0:
        node = state.nodes[pool.first_node + local]
        if usable(node, clock, shape, count, job.devices, avoid):
            nodes += 1
        local = index.next_after(state.bitmaps, pool, free, local)
    return nodes


@kernel
def fits_whole_nodes(state: Any, pool_id: int, job: Any, avoid: bool) -> bool:
    """Return whether there are empty nodes for a gang larger than a node, and for its remainder."""
    capacity = state.pools[pool_id].capacity
    full, rest = job.devices // capacity, job.devices % capacity
    empty = count_usable(state, pool_id, job, capacity, capacity, avoid)
    if empty < full:
        return False
    if rest == 0 or empty > full:
        return True
    for free in range(rest, capacity):
        if node_with(state, pool_id, job, free, rest, avoid) >= 0:
            return True
    # An empty node whose host is too small for a full share may still serve the remainder.
    return count_usable(state, pool_id, job, capacity, rest, avoid) > empty


@kernel
def fits_gathered(state: Any, pool_id: int, job: Any, avoid: bool) -> bool:
    """Return whether the pool has enough free devices in total, on hosts with room for them."""
    pool, shape = state.pools[pool_id], state.shapes[job.shape_id]
    total = 0
    if not asks_host(shape):
        for free in range(1, pool.capacity + 1):
            total += free * count_usable(state, pool_id, job, free, free, avoid)
        return bool(total >= job.devices)
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node = state.nodes[node_id]
        if not node.down and not (avoid and kept_back(state, node_id)):
            total += min(node.free, most_carried(node, shape, job.devices))
    return bool(total >= job.devices)


@kernel
def note_row(plan: Any, at: int, nodes: Any, node_id: int, count: int) -> int:
    """Write a node and its lowest free devices into a row of the plan; returns the next row."""
    plan[at].node = node_id
    plan[at].mask = lowest_devices(nodes[node_id].free_mask, count)
    return at + 1


@kernel
def list_gang(state: Any, pool_id: int, job: Any, fit: int, avoid: bool) -> int:
    """List the nodes and masks of a gang that fits as `fit` says, behind the plan's last action.

    Returns:
        The index in the plan where the list ends.
    """
    if fit == GATHERED:
        return list_gathered(state, pool_id, job, avoid)
    if fit == WHOLE_NODES:
        return list_whole_nodes(state, pool_id, job, avoid)
    at, left, node_id = state.clock[0].actions, job.devices, state.pools[pool_id].first_node
    while left > 0:
        if is_cleared(state, node_id):
            count = min(left, state.nodes[node_id].free)
            at = note_row(state.plan, at, state.nodes, node_id, count)
            left -= count
        node_id += 1
    return int(at)


@kernel
def list_whole_nodes(state: Any, pool_id: int, job: Any, avoid: bool) -> int:
    """List empty nodes, lowest first, then the fullest node with room for the remainder."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    capacity = pool.capacity
    at, left, local = clock.actions, job.devices, -1
    while left >= capacity:
        local = index.next_after(state.bitmaps, pool, capacity, local)
        node = state.nodes[pool.first_node + local]
        if usable(node, clock, shape, capacity, job.devices, avoid):
            at = note_row(state.plan, at, state.nodes, pool.first_node + local, capacity)
            left -= capacity
    if left > 0:
        node_id = last_node(state, pool_id, job, left, local, avoid)
        at = note_row(state.plan, at, state.nodes, node_id, left)
    return int(at)


@kernel
def last_node(state: Any, pool_id: int, job: Any, rest: int, taken: int, avoid: bool) -> int:
    """Return the node for a gang's remainder; it already has the empty nodes up to `taken`."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    for free in range(rest, pool.capacity):
        node_id = node_with(state, pool_id, job, free, rest, avoid)
        if node_id >= 0:
            return int(node_id)
    local = -1
    while True:
        local = index.next_after(state.bitmaps, pool, pool.capacity, local)
        node = state.nodes[pool.first_node + local]
        has_it = usable(node, clock, shape, pool.capacity, job.devices, avoid) and local <= taken
        if not has_it and usable(node, clock, shape, rest, job.devices, avoid):
            return int(pool.first_node + local)


@kernel
def list_gathered(state: Any, pool_id: int, job: Any, avoid: bool) -> int:
    """List nodes, most free devices first; each gives what is free and its host can carry."""
    pool, shape = state.pools[pool_id], state.shapes[job.shape_id]
    at, left = state.clock[0].actions, job.devices
    for step in range(pool.capacity):
        free = pool.capacity - step
        local = index.next_after(state.bitmaps, pool, free, -1)
        while local >= 0 and left > 0:
            node_id = pool.first_node + local
            carried = most_carried(state.nodes[node_id], shape, job.devices)
            count = min(left, min(free, carried))
            if count > 0 and not (avoid and kept_back(state, node_id)):
                at = note_row(state.plan, at, state.nodes, node_id, count)
                left -= count
            local = index.next_after(state.bitmaps, pool, free, local)
    return int(at)
