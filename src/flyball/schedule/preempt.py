"""Preemption rounds: a pending job may take devices from running jobs well behind it.

No job is preempted unless the pending job then fits. Victims are tried worst first; the work
is bounded by the running jobs times the shapes, not by the length of the queue.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Reason
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel, lowest_bit
from flyball.schedule.allocate import fewest_nodes, held_w, record, release
from flyball.schedule.fair import fairest_shape
from flyball.schedule.host import share_of
from flyball.schedule.nodes import CLEARED, NOWHERE, count_nodes
from flyball.schedule.order import FAIR
from flyball.schedule.place import find, within_budget
from flyball.schedule.pool_order import next_pool
from flyball.schedule.queue import drop_first, first_shape
from flyball.schedule.reclaim import begin_walk, gives_back, is_borrowed, list_borrowers
from flyball.schedule.slices import give_way
from flyball.schedule.start import start
from flyball.schedule.victims import (
    SET_ASIDE,
    collect_victims,
    forget_reach,
    job_of,
    nth_victim,
    out_of_reach,
    place_of,
    stands_on,
)

PREEMPT = int(ActionKind.PREEMPT)
GAVE_WAY, GAVE_BACK = int(Reason.GAVE_WAY), int(Reason.GAVE_BACK)
MADE_ROOM, RECLAIMED = int(Reason.MADE_ROOM), int(Reason.RECLAIMED)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def would_be_whole(state: Any, node_id: int) -> int:
    """Return the whole free devices of a node if the victims added so far were gone."""
    scratch = state.node_scratch[node_id]
    if scratch.stamp == state.clock[0].stamp:
        return int(scratch.value)
    return int(state.nodes[node_id].free)


@kernel
def host_would_do(
    node: Any, scratch: Any, clock: Any, shape: Any, count: int, devices: int
) -> bool:
    """Return whether the host, without those victims, has room for `count` of a gang's devices."""
    if not clock.hosts:
        return True
    cpu_milli, host_mib = node.free_cpu_milli, node.free_host_mib
    if scratch.stamp == clock.stamp:
        cpu_milli += scratch.cpu_milli
        host_mib += scratch.host_mib
    enough = cpu_milli >= share_of(shape.cpu_milli, count, devices)
    return bool(enough and host_mib >= share_of(shape.host_mib, count, devices))


@kernel
def free_milli(state: Any, node: Any, at: int) -> int:
    """Return the free thousandths of a device."""
    bit = ONE << np.uint64(at)
    if node.free_mask & bit != ZERO:
        return MILLI_PER_DEVICE
    if node.open_mask & bit != ZERO:
        return int(state.devices[node.first_device + at].free_milli)
    return 0


@kernel
def count_from(state: Any, node_id: int) -> Any:
    """Return the scratch record of a node, which begins with what is free there now."""
    scratch, stamp = state.node_scratch[node_id], state.clock[0].stamp
    if scratch.stamp != stamp:
        scratch.stamp, scratch.cpu_milli, scratch.host_mib = stamp, 0, 0
        scratch.value = state.nodes[node_id].free
    return scratch


@kernel
def add_row(state: Any, row: Any, for_fraction: bool) -> None:
    """Count a victim's row as if its devices were free; device by device only if necessary."""
    stamp = state.clock[0].stamp
    scratch = count_from(state, row.node)
    if state.clock[0].hosts:
        job = state.jobs[row.job]
        shape, count = state.shapes[job.shape_id], bit_count(row.mask)
        scratch.cpu_milli += share_of(shape.cpu_milli, count, job.devices)
        scratch.host_mib += share_of(shape.host_mib, count, job.devices)
    if row.milli == MILLI_PER_DEVICE and not for_fraction:
        scratch.value += bit_count(row.mask)
        return
    node, memory = state.nodes[row.node], state.jobs[row.job].memory_mib
    rest = row.mask
    while rest != ZERO:
        at = lowest_bit(rest)
        rest &= rest - ONE
        device = state.device_scratch[node.first_device + at]
        if device.stamp != stamp:
            device.stamp, device.value, device.memory_mib = stamp, 0, 0
        device.value += row.milli
        device.memory_mib += memory
        if free_milli(state, node, at) + device.value == MILLI_PER_DEVICE:
            scratch.value += 1


@kernel
def would_serve_fraction(state: Any, node_id: int, job: Any) -> bool:
    """Return whether enough devices of the node would have room for a fractional job."""
    node = state.nodes[node_id]
    pool = state.pools[node.pool]
    count = 0
    for at in range(pool.capacity):
        scratch = state.device_scratch[node.first_device + at]
        counts = scratch.stamp == state.clock[0].stamp
        milli = free_milli(state, node, at) + (scratch.value if counts else 0)
        memory = pool.memory_mib
        if milli < MILLI_PER_DEVICE:
            memory = scratch.memory_mib if counts else 0
            if fractions_on(state, node_id, at):
                memory += state.devices[node.first_device + at].free_mib
        if milli >= job.milli and memory >= job.memory_mib:
            count += 1
    return bool(count >= job.devices)


@kernel
def fractions_on(state: Any, node_id: int, at: int) -> bool:
    """Return whether the device serves fractional jobs, so that its record is valid."""
    bit = ONE << np.uint64(at)
    row_id = state.nodes[node_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if row.mask & bit != ZERO:
            return bool(row.milli < MILLI_PER_DEVICE)
        row_id = row.sibling
    return False


@kernel
def serving_node(state: Any, job: Any, victim_id: int) -> int:
    """Return the lowest node of this victim on which the job would then fit, or NOWHERE."""
    best, clock, shape = NOWHERE, state.clock[0], state.shapes[job.shape_id]
    row_id = state.runs[victim_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if best == NOWHERE or row.node < best:
            if job.milli < MILLI_PER_DEVICE:
                serves = would_serve_fraction(state, row.node, job)
            else:
                serves = would_be_whole(state, row.node) >= job.devices
            node, scratch = state.nodes[row.node], state.node_scratch[row.node]
            if serves and host_would_do(node, scratch, clock, shape, job.devices, job.devices):
                best = row.node
        row_id = row.next
    return int(best)


@kernel
def newly_empty(state: Any, victim_id: int) -> int:
    """Count the nodes of this victim, just added, that only become wholly free without it."""
    count = 0
    row_id = state.runs[victim_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        node = state.nodes[row.node]
        if row.mask != ZERO and would_be_whole(state, row.node) == state.pools[node.pool].capacity:
            count += 1
        row_id = row.next
    return count


@kernel
def mark_empty_nodes(state: Any, job: Any, pool_id: int, needed: int) -> bool:
    """Mark as cleared the lowest nodes that would be wholly free and whose host fits a full share.

    Returns:
        Whether there are as many as needed; if not, none is marked.
    """
    pool, clock, shape = state.pools[pool_id], state.clock[0], state.shapes[job.shape_id]
    count = 0
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node, scratch = state.nodes[node_id], state.node_scratch[node_id]
        if node.down or would_be_whole(state, node_id) < pool.capacity:
            continue
        if not host_would_do(node, scratch, clock, shape, pool.capacity, job.devices):
            continue
        state.shortlist[count].tie = node_id
        count += 1
        if count == needed:
            for at in range(count):
                cleared = state.node_scratch[state.shortlist[at].tie]
                cleared.stamp, cleared.value = clock.stamp, CLEARED
            return True
    return False


@kernel
def evict(
    state: Any, knobs: Any, pool_id: int, upto: int, node_id: int, key: float, really: bool,
    now: int,
) -> float:  # fmt: skip
    """Preempt those of the victims 0..upto that are in the way; returns the power then drawn.

    With `really` false it only computes the sum.
    """
    power_w, fair = state.clock[0].power_w, knobs.order == FAIR
    if fair:
        begin_walk(state)
    for n in range(upto + 1):
        victim = state.victims[nth_victim(state, n)]
        if victim.tie == SET_ASIDE or (fair and not is_borrowed(state, job_of(victim))):
            continue
        place, victim_id = place_of(state, victim), job_of(victim)
        if place.pool != pool_id or not stands_on(state, victim, node_id):
            continue
        row_id = state.runs[victim_id].first_row
        while row_id >= 0:
            devices = bit_count(state.rows[row_id].mask)
            power_w -= held_w(state, victim_id, devices)
            row_id = state.rows[row_id].next
        if really:
            reason, gain = GAVE_WAY, -victim.key - key
            if fair:
                reason, gain = GAVE_BACK, gives_back(state, victim_id)
            record(state, PREEMPT, victim_id, -1, ZERO, reason, gain)
            give_way(state, victim_id, now)
            release(state, knobs, victim_id, now)
            victim.tie = SET_ASIDE
            if place.node < 0:
                forget_reach(state)
    return float(power_w)


@kernel
def add_victim(state: Any, job: Any, capacity: int, victim_id: int) -> tuple:  # type: ignore[type-arg]
    """Count a victim as gone.

    Returns:
        (where the job would then fit, if that is one node; how many nodes became wholly free).
    """
    row_id = state.runs[victim_id].first_row
    while row_id >= 0:
        add_row(state, state.rows[row_id], job.milli < MILLI_PER_DEVICE)
        row_id = state.rows[row_id].next
    if job.devices <= capacity:
        return serving_node(state, job, victim_id), 0
    return NOWHERE, newly_empty(state, victim_id)


@kernel
def room_in_pool(state: Any, knobs: Any, job_id: int, key: float, pool_id: int, now: int) -> bool:
    """Make room for the job in this pool and start it there; False if that is not possible."""
    clock, job = state.clock[0], state.jobs[job_id]
    capacity = state.pools[pool_id].capacity
    needed = fewest_nodes(job.devices, capacity)
    empty = count_nodes(state, pool_id, capacity, False)
    fair = knobs.order == FAIR
    if not fair and (job.devices <= capacity or empty < needed):
        if out_of_reach(state, pool_id, min(job.devices, capacity), key + knobs.margin_s):
            return False
    clock.stamp += 1
    whole = job.milli == MILLI_PER_DEVICE and not clock.hosts
    if fair:
        begin_walk(state)
    for n in range(clock.victim_count):
        victim = state.victims[nth_victim(state, n)]
        if fair:
            if victim.tie == SET_ASIDE or not is_borrowed(state, job_of(victim)):
                continue
        elif -victim.key <= key + knobs.margin_s:
            return False
        if victim.tie == SET_ASIDE:
            continue
        place = place_of(state, victim)
        if place.pool != pool_id:
            continue
        if whole and place.node >= 0:  # all there is to know is in its record
            scratch = count_from(state, place.node)
            scratch.value += place.devices
            node_id = place.node if scratch.value >= job.devices else NOWHERE
            became_empty = 1 if scratch.value == capacity else 0
        else:
            node_id, became_empty = add_victim(state, job, capacity, job_of(victim))
        fit = node_id
        if job.devices > capacity:
            node_id, fit = NOWHERE, CLEARED
            empty += became_empty
            if empty < needed or not mark_empty_nodes(state, job, pool_id, needed):
                continue
        elif node_id == NOWHERE:
            continue
        if clock.budget_w > 0.0:
            power_w = evict(state, knobs, pool_id, n, node_id, key, False, now)
            if not within_budget(state, knobs, job, pool_id, power_w):
                return False
        evict(state, knobs, pool_id, n, node_id, key, True, now)
        drop_first(state, state.shapes[job.shape_id])
        reason, gain = MADE_ROOM, -victim.key - key
        if fair:
            reason, gain = RECLAIMED, 1.0
        start(state, knobs, job_id, pool_id, fit, False, now, reason, gain)
        return True
    return False


@kernel
def make_room(state: Any, knobs: Any, job_id: int, key: float, now: int) -> bool:
    """Make room for the job in the first pool where that is possible; False if in none."""
    job = state.jobs[job_id]
    pools = state.shapes[job.shape_id].pools
    while pools != ZERO:
        pool_id = next_pool(state, knobs, job, pools)
        pools &= ~(ONE << np.uint64(pool_id))
        if room_in_pool(state, knobs, job_id, key, pool_id, now):
            return True
    return False


@kernel
def next_in_round(state: Any, fair: bool) -> int:
    """Return the shape whose first job is the next to make room for, or -1."""
    if fair:
        return fairest_shape(state, True, True)
    return first_shape(state, False, True)


@kernel
def preemption_round(state: Any, knobs: Any, now: int) -> bool:
    """Let pending jobs take devices from jobs behind them; True if any job was preempted.

    With order = fair, let those within their tenant's quota take devices from borrowers.
    """
    clock, fair = state.clock[0], knobs.order == FAIR
    for shape_id in range(len(state.shapes)):
        state.shapes[shape_id].passed = 0
    shape_id = next_in_round(state, fair)
    if shape_id < 0 or clock.running == 0:
        return False
    if fair:
        list_borrowers(state, now)
    else:
        collect_victims(state, knobs, state.queue[state.shapes[shape_id].begin].key, now)
    evicted = False
    while shape_id >= 0 and clock.victim_count > 0:
        shape = state.shapes[shape_id]
        top = state.queue[shape.begin]
        job_id, key = top.tie, top.key
        pool_id, fit = -1, NOWHERE
        if evicted:
            pool_id, fit, _avoid = find(state, knobs, job_id, False, now)
        if pool_id >= 0:
            drop_first(state, shape)
            reason = RECLAIMED if fair else MADE_ROOM
            start(state, knobs, job_id, pool_id, fit, False, now, reason, 0.0)
        elif make_room(state, knobs, job_id, key, now):
            evicted = True
        else:
            shape.passed = 1
        shape_id = next_in_round(state, fair)
    return evicted
