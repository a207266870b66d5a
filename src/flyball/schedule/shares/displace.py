"""Makes room for a wide job in a round by moving narrower ones of the same pool.

The narrower jobs were chosen for the pool too: they start again on what is left, after all
wider ones. Nothing is changed here; `state.victims` then lists the jobs that must move.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel
from flyball.schedule.allocate import fewest_nodes, held_w
from flyball.schedule.host import asks_host
from flyball.schedule.nodes import CLEARED, NOWHERE
from flyball.schedule.place import within_budget


@kernel
def displace(state: Any, knobs: Any, job: Any, pool_id: int) -> tuple:  # type: ignore[type-arg]
    """Find where the job would fit if narrower jobs moved.

    Returns:
        (node, CLEARED or NOWHERE; how many must move: `state.victims[:n].tie`, in order).
    """
    if job.milli < MILLI_PER_DEVICE or asks_host(state.shapes[job.shape_id]):
        return NOWHERE, 0
    pool = state.pools[pool_id]
    state.clock[0].stamp += 1  # no node is listed yet
    if job.devices <= pool.capacity:
        fit = best_node(state, pool, job.devices, job.devices)
        moved = 0
        if fit != NOWHERE:
            moved = list_movers(state, fit, job.devices, job.devices, 0)
    else:
        fit, moved = clear_nodes(state, pool, job.devices)
    if fit != NOWHERE and not within_budget(
        state, knobs, job, pool_id, power_without(state, moved)
    ):
        return NOWHERE, 0
    return fit, moved


@kernel
def movable_devices(state: Any, row: Any, devices: int) -> int:
    """Return the devices of a row whose job may move for a job of `devices`; 0 if it may not."""
    job, run = state.jobs[row.job], state.runs[row.job]
    if job.milli < MILLI_PER_DEVICE or job.devices >= devices:
        return 0
    if run.nodes > 1:
        return 0
    return int(bit_count(row.mask))


@kernel
def could_be_free(state: Any, node_id: int, devices: int) -> int:
    """Return the whole free devices of a node if all jobs that may move did."""
    free = state.nodes[node_id].free
    row_id = state.nodes[node_id].first_row
    while row_id >= 0:
        free += movable_devices(state, state.rows[row_id], devices)
        row_id = state.rows[row_id].sibling
    return int(free)


@kernel
def best_node(state: Any, pool: Any, needed: int, devices: int) -> int:
    """Return the unlisted node with most free devices where `needed` could become free."""
    best, most = NOWHERE, -1
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node, scratch = state.nodes[node_id], state.node_scratch[node_id]
        listed = scratch.stamp == state.clock[0].stamp and scratch.value == CLEARED
        if node.down or listed or node.free <= most:
            continue
        if could_be_free(state, node_id, devices) >= needed:
            best, most = node_id, node.free
    return int(best)


@kernel
def list_movers(state: Any, node_id: int, needed: int, devices: int, count: int) -> int:
    """List jobs to move off a node, narrowest first, until `needed` devices are free."""
    free = state.nodes[node_id].free
    before, before_job = 0, -1
    while free < needed:
        best, least = -1, 0
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            has = movable_devices(state, row, devices)
            later = has > before or (has == before and row.job > before_job)
            sooner = best < 0 or has < least or (has == least and row.job < best)
            if has > 0 and later and sooner:
                best, least = row.job, has
            row_id = row.sibling
        state.victims[count].tie = best
        count += 1
        free += least
        before, before_job = least, best
    return count


@kernel
def clear_nodes(state: Any, pool: Any, devices: int) -> tuple:  # type: ignore[type-arg]
    """Mark the nodes that a gang larger than a node would fill, and list the jobs that move."""
    clock, count = state.clock[0], 0
    for _ in range(fewest_nodes(devices, pool.capacity)):
        node_id = best_node(state, pool, pool.capacity, devices)
        if node_id == NOWHERE:
            return NOWHERE, 0
        scratch = state.node_scratch[node_id]
        scratch.stamp, scratch.value = clock.stamp, CLEARED
        count = list_movers(state, node_id, pool.capacity, devices, count)
    return CLEARED, count


@kernel
def power_without(state: Any, moved: int) -> float:
    """Return the cluster's draw without the jobs that move."""
    power_w = state.clock[0].power_w
    for at in range(moved):
        job_id = state.victims[at].tie
        power_w -= held_w(state, job_id, state.runs[job_id].devices)
    return float(power_w)
