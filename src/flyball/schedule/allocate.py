"""Gives devices to a job and takes them back: the only code that changes capacity."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Order
from flyball.core.records import CAP_LEVELS
from flyball.core.state import BLOCK_BITS, STALE
from flyball.core.units import MILLI_PER_CORE, MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, hot, kernel, lowest_bit
from flyball.physics.energy import asleep, rest, touch
from flyball.schedule import index
from flyball.schedule.host import take_host
from flyball.schedule.tenants import charge

START = int(ActionKind.START)
RUNNING = int(Status.RUNNING)
FAIR = int(Order.FAIR)
GUEST = 0
"""Thousandths in the row of a job that shares a device which another job holds."""
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def extra_w(state: Any, job: Any, pool_id: int, cap: int, devices: int) -> float:
    """Return the watts that `devices` of a pool draw above idle while they run this job."""
    pool = state.pools[pool_id]
    rate = state.rates[job.profile * len(state.pools) + pool_id]
    power = state.caps[pool_id * CAP_LEVELS + cap].power
    return float(devices * job.milli / 1000 * (rate.watts * power - pool.idle_w))


@kernel
def held_w(state: Any, job_id: int, devices: int) -> float:
    """Return the watts that `devices` of a running job add to the draw of their node."""
    job, run = state.jobs[job_id], state.runs[job_id]
    return float(extra_w(state, job, run.pool, run.cap, devices) * run.slow)


@kernel
def own_w(state: Any, job: Any, pool_id: int, cap: int, devices: int) -> float:
    """Return the watts that the job draws in a pool, including its share of the hosts."""
    pool = state.pools[pool_id]
    rate = state.rates[job.profile * len(state.pools) + pool_id]
    power = state.caps[pool_id * CAP_LEVELS + cap].power
    share = devices * job.milli / 1000
    return float(share * (rate.watts * power) + pool.host_w * share / pool.capacity)


@kernel
def rate_of(state: Any, job: Any, pool_id: int, cap: int, spread: bool) -> float:
    """Return the progress per microsecond in a pool under a cap, with the devices asked for."""
    rate = state.rates[job.profile * len(state.pools) + pool_id]
    slowdown = state.caps[pool_id * CAP_LEVELS + cap].slowdown
    return float((rate.spread if spread else rate.packed) / slowdown)


@kernel
def slice_rate(state: Any, job_id: int) -> float:
    """Return the progress per microsecond of the running slice: its devices, cap, neighbours."""
    job, run = state.jobs[job_id], state.runs[job_id]
    spread = run.nodes > fewest_nodes(run.devices, state.pools[run.pool].capacity)
    if job.curve < 0:
        return float(rate_of(state, job, run.pool, run.cap, spread) * run.slow)
    sizes = state.ranges[job.curve]
    point = state.points[sizes.first + (run.devices - sizes.least) * len(state.pools) + run.pool]
    slowdown = state.caps[run.pool * CAP_LEVELS + run.cap].slowdown
    return float((point.spread if spread else point.packed) / slowdown * run.slow)


@kernel
def fewest_nodes(devices: int, capacity: int) -> int:
    """Return how many nodes hold the devices if each is filled; at least 1."""
    return max(1, (devices + capacity - 1) // capacity)


@kernel
def forget(avail: Any, scores: Any, node_id: int) -> None:
    """Mark what is cached about the node as stale, because something on it changed."""
    avail[0, node_id] = STALE
    avail[0, avail.shape[1] - 1 - (node_id >> BLOCK_BITS)] = STALE
    for shape_id in range(len(scores)):
        scores[shape_id, node_id] = STALE


@kernel
def set_free(state: Any, node: Any, node_id: int, mask: Any) -> None:
    """Give the node a new mask of whole free devices and update the index."""
    pool = state.pools[node.pool]
    free = bit_count(mask)
    if free != node.free:
        index.discard(state.bitmaps, pool, node.free, node_id - pool.first_node)
        index.insert(state.bitmaps, pool, free, node_id - pool.first_node)
        node.free = free
    node.free_mask = mask


@kernel
def take_away(state: Any, node_id: int, devices: int, cores: int, memory_mib: int) -> None:
    """Take capacity of a node out of use that jobs have which are not in the state.

    Its highest free devices go, as many as are free; no row says when they return.
    """
    node = state.nodes[node_id]
    kept, rest = ZERO, node.free_mask
    for _ in range(node.free - devices):
        kept |= rest & (~rest + ONE)
        rest &= rest - ONE
    set_free(state, node, node_id, kept)
    node.free_cpu_milli = max(0, node.free_cpu_milli - cores * MILLI_PER_CORE)
    node.free_host_mib = max(0, node.free_host_mib - memory_mib)
    forget(state.avail, state.scores, node_id)


@kernel
def open_devices(state: Any, node: Any, job: Any, mask: Any) -> Any:
    """Take a fraction of each device of `mask`; returns the new mask of whole free devices."""
    free_mask = node.free_mask
    rest = mask
    while rest != ZERO:
        at = lowest_bit(rest)
        bit = ONE << np.uint64(at)
        rest &= ~bit
        device = state.devices[node.first_device + at]
        if free_mask & bit != ZERO:
            device.free_milli = MILLI_PER_DEVICE
            device.free_mib = state.pools[node.pool].memory_mib
            free_mask &= ~bit
            node.open_mask |= bit
        device.free_milli -= job.milli
        device.free_mib -= job.memory_mib
        if device.free_milli == 0:
            node.open_mask &= ~bit
    return free_mask


@kernel
def close_devices(state: Any, node: Any, job: Any, mask: Any) -> Any:
    """Undo `open_devices`."""
    free_mask = node.free_mask
    rest = mask
    while rest != ZERO:
        at = lowest_bit(rest)
        bit = ONE << np.uint64(at)
        rest &= ~bit
        device = state.devices[node.first_device + at]
        device.free_milli += job.milli
        device.free_mib += job.memory_mib
        if device.free_milli == MILLI_PER_DEVICE:
            free_mask |= bit
            node.open_mask &= ~bit
        else:
            node.open_mask |= bit
    return free_mask


@hot
def take_row(
    state: Any, knobs: Any, job_id: int, node_id: int, mask: Any, after: int, milli: int, now: int
) -> int:
    """Allocate devices of one node to a job and return the new row, chained behind `after`."""
    job, node, clock = state.jobs[job_id], state.nodes[node_id], state.clock[0]
    touch(state, node_id, now)
    row_id = clock.free_row
    row = state.rows[row_id]
    clock.free_row = row.next
    row.job, row.node, row.mask, row.milli = job_id, node_id, mask, milli
    row.next, row.sibling = -1, node.first_row
    node.first_row = row_id
    if after >= 0:
        state.rows[after].next = row_id
    else:
        state.runs[job_id].first_row = row_id
    if milli == MILLI_PER_DEVICE:
        set_free(state, node, node_id, node.free_mask & ~mask)
    elif milli != GUEST:
        set_free(state, node, node_id, open_devices(state, node, job, mask))
    devices = bit_count(mask)
    take_host(node, state.shapes[job.shape_id], devices, job.devices, 1)
    node.used_milli += devices * milli
    node.idle_since_us = -1
    forget(state.avail, state.scores, node_id)
    added = extra_w(state, job, node.pool, state.runs[job_id].cap, devices)
    node.power_w += added
    clock.power_w += added
    return int(row_id)


@hot
def begin_slice(
    state: Any, knobs: Any, job_id: int, pool_id: int, nodes: int, devices: int, wait_us: int,
    now: int,
) -> None:  # fmt: skip
    """Fill in the record of the running slice, once its rows are taken and its cap is set."""
    job, run, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    ready_us = now + wait_us + setup_us(clock, job, run)
    if clock.free_moves and keeps_shape(run, pool_id, nodes, devices):
        ready_us = max(run.ready_us, now + wait_us)
    run.pool, run.nodes, run.devices, run.slow = pool_id, nodes, devices, 1.0
    run.rate = slice_rate(state, job_id)
    run.watts = own_w(state, job, pool_id, run.cap, devices)
    run.since_us = run.began_us = now
    run.awake_us, run.ready_us = now + wait_us, ready_us
    if run.attempt == 0:
        run.first_start_us = now
    run.attempt += 1
    run.status = RUNNING
    clock.pending -= 1
    clock.running += 1
    clock.starts += 1
    clock.peak_power_w = max(clock.peak_power_w, clock.power_w)
    if knobs.order == FAIR:
        charge(state, knobs, job_id, pool_id, 1, now)


@kernel
def first_setup_us(clock: Any, job: Any) -> int:
    """Return the set-up before progress of the job's first start."""
    return int(job.restart_us * clock.first_part)


@kernel
def setup_us(clock: Any, job: Any, run: Any) -> int:
    """Return the set-up before progress of the job's next start."""
    return int(job.restart_us if run.attempt > 0 else first_setup_us(clock, job))


@kernel
def keeps_shape(run: Any, pool_id: int, nodes: int, devices: int) -> bool:
    """Return whether a job that this decision preempted goes on in the same pool and shape."""
    same = run.pool == pool_id and run.nodes == nodes and run.devices == devices
    return bool(same and run.status == RUNNING)


@kernel
def waking_us(state: Any, node_id: int, now: int) -> int:
    """Return how long a start must wait until this node is awake."""
    node = state.nodes[node_id]
    if asleep(node, now):
        return int(state.pools[node.pool].wake_us)
    return int(max(0, node.awake_us - now))


@kernel
def unlink(state: Any, node: Any, row_id: int) -> None:
    """Take a row out of its node's list."""
    if node.first_row == row_id:
        node.first_row = state.rows[row_id].sibling
        return
    at = node.first_row
    while state.rows[at].sibling != row_id:
        at = state.rows[at].sibling
    state.rows[at].sibling = state.rows[row_id].sibling


@kernel
def pass_on(state: Any, node: Any, row_id: int) -> bool:
    """Give the device of a row to the first guest on it and return whether there was one."""
    row = state.rows[row_id]
    heir = -1
    at = node.first_row
    while at >= 0:
        guest = state.rows[at]
        if guest.milli == GUEST and guest.mask & row.mask != ZERO:
            if heir < 0 or guest.job < state.rows[heir].job:
                heir = at
        at = guest.sibling
    if heir < 0:
        return False
    state.rows[heir].milli = row.milli
    return True


@hot
def release(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Take back everything a job holds."""
    job, run, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    row_id = run.first_row
    while row_id >= 0:
        row = state.rows[row_id]
        node = state.nodes[row.node]
        pool = state.pools[node.pool]
        touch(state, row.node, now)
        held_milli = row.milli
        if row.milli == GUEST or (len(state.pairs) > 0 and pass_on(state, node, row_id)):
            held_milli = 0
        elif row.milli == MILLI_PER_DEVICE:
            set_free(state, node, row.node, node.free_mask | row.mask)
        else:
            set_free(state, node, row.node, close_devices(state, node, job, row.mask))
        devices = bit_count(row.mask)
        take_host(node, state.shapes[job.shape_id], devices, job.devices, -1)
        node.used_milli -= devices * held_milli
        forget(state.avail, state.scores, row.node)
        removed = held_w(state, job_id, devices)
        clock.power_w -= removed
        unlink(state, node, row_id)
        if node.first_row < 0:
            node.power_w = pool.host_w + pool.capacity * pool.idle_w
            rest(node, knobs.sleep_us, now)
        else:
            node.power_w -= removed
        following = row.next
        row.next = clock.free_row
        clock.free_row = row_id
        row_id = following
    run.first_row = -1
    clock.running -= 1
    clock.capacity_grew = 1
    if knobs.order == FAIR:
        charge(state, knobs, job_id, run.pool, -1, now)


@kernel
def record(
    state: Any, kind: int, job_id: int, node_id: int, mask: Any, reason: int, gain: float
) -> None:
    """Write an action into the plan."""
    clock = state.clock[0]
    action = state.plan[clock.actions]
    clock.actions += 1
    action.kind, action.job, action.node, action.mask = kind, job_id, node_id, mask
    action.milli, action.reason, action.gain = state.jobs[job_id].milli, reason, gain
    action.level = 0
