"""Tracks in compiled code which devices are free once a round's plan is carried out.

A bidder is released from where it is, and placed: back where it was if that is still free, which
costs nothing, or on the fewest nodes of a pool, fullest first. Power budget and host capacity are
kept as `tune/plan_draft.py` keeps them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.records import CAP_LEVELS
from flyball.core.units import MILLI_PER_DEVICE, POWER_SLACK
from flyball.physics.compile import bit_count, kernel

NO_SIZE = 1 << 30
ONE, ZERO = np.uint64(1), np.uint64(0)


@kernel
def begin_draft(state: Any, bench: Any) -> None:
    """Set nodes, pools and power to what they are now."""
    totals, clock = bench.totals[0], state.clock[0]
    totals.places = 0
    totals.mark = 0
    totals.now_us = clock.now_us
    totals.budget_w = clock.budget_w * POWER_SLACK
    totals.drawn_w = clock.power_w
    totals.hosts = clock.hosts
    for pool_id in range(len(state.pools)):
        pool = bench.pools[pool_id]
        pool.free, pool.blocked, pool.capacity = 0, NO_SIZE, 0.0
        pool.hopeless, pool.hopeless_loss = NO_SIZE, 0.0
    for node_id in range(len(state.nodes)):
        node, drafted = state.nodes[node_id], bench.nodes[node_id]
        drafted.mask = ZERO if node.down else node.free_mask
        drafted.free = bit_count(drafted.mask)
        drafted.cpu_milli, drafted.host_mib = node.free_cpu_milli, node.free_host_mib
        drafted.used = 0
        bench.pools[node.pool].free += drafted.free


@kernel
def added_w(state: Any, job_id: int, pool_id: int, count: int, level: int) -> float:
    """Return the watts that a job adds to the draw of idle devices."""
    job = state.jobs[job_id]
    rate = state.rates[job.profile * len(state.pools) + pool_id]
    power = state.caps[pool_id * CAP_LEVELS + level].power
    share = count * job.milli / MILLI_PER_DEVICE
    return float(share * (rate.watts * power - state.pools[pool_id].idle_w))


@kernel
def host_share(total: int, devices: int, asked: int) -> int:
    """Return the part of a job's cores or memory that some of its devices take, rounded up."""
    return -(-total * devices // asked)


@kernel
def host_fits(state: Any, bench: Any, job_id: int, node_id: int, devices: int) -> bool:
    """Return whether the host of a node has room for a part of a job."""
    if bench.totals[0].hosts == 0:
        return True
    job, node = state.jobs[job_id], bench.nodes[node_id]
    shape = state.shapes[job.shape_id]
    if node.cpu_milli < host_share(shape.cpu_milli, devices, job.devices):
        return False
    return bool(node.host_mib >= host_share(shape.host_mib, devices, job.devices))


@kernel
def account(state: Any, bench: Any, job_id: int, node_id: int, mask: Any, sign: int) -> None:
    """Take devices of a node for a job (sign 1), or give them back (-1)."""
    node, devices = bench.nodes[node_id], bit_count(mask)
    if bench.totals[0].hosts:
        job = state.jobs[job_id]
        shape = state.shapes[job.shape_id]
        node.cpu_milli -= sign * host_share(shape.cpu_milli, devices, job.devices)
        node.host_mib -= sign * host_share(shape.host_mib, devices, job.devices)
    if sign > 0:
        node.mask = node.mask & ~mask
    elif not state.nodes[node_id].down:
        node.mask = node.mask | mask
    free = bit_count(node.mask)
    bench.pools[state.nodes[node_id].pool].free += free - node.free
    node.free = free


@kernel
def release(state: Any, bench: Any, bidder: Any) -> None:
    """Take a bidder off the devices it has in the draft."""
    if bidder.pool < 0:
        return
    totals = bench.totals[0]
    if totals.budget_w > 0.0:
        totals.drawn_w -= added_w(state, bidder.job, bidder.pool, bidder.count, bidder.level)
    bench.pools[bidder.pool].blocked = NO_SIZE
    if bidder.first_place < 0:
        row_id = state.runs[bidder.job].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            account(state, bench, bidder.job, row.node, row.mask, -1)
            row_id = row.next
    else:
        for at in range(bidder.first_place, bidder.first_place + bidder.place_count):
            place = bench.places[at]
            account(state, bench, bidder.job, place.node, place.mask, -1)
    bidder.pool, bidder.count, bidder.first_place, bidder.place_count = -1, 0, -1, 0


@kernel
def fits_back(state: Any, bench: Any, bidder: Any) -> bool:
    """Return whether a bidder can go on where it was."""
    if bidder.was_pool < 0:
        return False
    row_id = state.runs[bidder.job].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if bench.nodes[row.node].mask & row.mask != row.mask:
            return False
        if not host_fits(state, bench, bidder.job, row.node, bit_count(row.mask)):
            return False
        row_id = row.next
    return True


@kernel
def put_back(state: Any, bench: Any, bidder: Any) -> None:
    """Let a bidder go on where it was."""
    row_id = state.runs[bidder.job].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        account(state, bench, bidder.job, row.node, row.mask, 1)
        row_id = row.next
    bidder.pool, bidder.count, bidder.first_place = bidder.was_pool, bidder.was_count, -1
    totals = bench.totals[0]
    if totals.budget_w > 0.0:
        totals.drawn_w += added_w(state, bidder.job, bidder.pool, bidder.count, bidder.level)


@kernel
def asleep(state: Any, bench: Any, node_id: int) -> bool:
    """Return whether a node sleeps now."""
    node = state.nodes[node_id]
    return bool(node.idle_since_us >= 0 and node.sleeps_us <= bench.totals[0].now_us)


@kernel
def take(state: Any, bench: Any, bidder: Any, node_id: int, devices: int) -> None:
    """Give a bidder the lowest free devices of a node."""
    totals = bench.totals[0]
    left, chosen = bench.nodes[node_id].mask, ZERO
    for _ in range(devices):
        bit = left & (~left + ONE)
        chosen |= bit
        left ^= bit
    place = bench.places[totals.places]
    place.node, place.mask = node_id, chosen
    totals.places += 1
    bidder.place_count += 1
    account(state, bench, bidder.job, node_id, chosen, 1)


@kernel
def put(state: Any, bench: Any, bidder: Any, pool_id: int, count: int) -> bool:
    """Place a bidder on the fewest nodes of a pool, fullest first; False = no room."""
    totals, pool, drafted = bench.totals[0], state.pools[pool_id], bench.pools[pool_id]
    if drafted.free < count or drafted.blocked <= count:
        return False
    added = 0.0
    if totals.budget_w > 0.0:
        added = added_w(state, bidder.job, pool_id, count, bidder.level)
        if totals.drawn_w + added > totals.budget_w:
            return False
    full, rest = count // pool.capacity, count % pool.capacity
    if totals.places + full + 1 > len(bench.places):
        return False
    if not has_room(state, bench, bidder.job, pool_id, full, rest):
        if totals.hosts == 0:
            drafted.blocked = count
        return False
    bidder.first_place, bidder.place_count = totals.places, 0
    first, end = pool.first_node, pool.first_node + pool.nodes
    for sleeping in range(2):  # whole nodes: those awake first
        for node_id in range(first, end):
            if full == 0:
                break
            if bench.nodes[node_id].free < pool.capacity:
                continue
            if asleep(state, bench, node_id) != (sleeping == 1):
                continue
            if host_fits(state, bench, bidder.job, node_id, pool.capacity):
                take(state, bench, bidder, node_id, pool.capacity)
                full -= 1
    if rest:
        best, least = -1, NO_SIZE
        for node_id in range(first, end):
            free = bench.nodes[node_id].free
            if free >= rest and 2 * free < least:
                key = 2 * free + (1 if asleep(state, bench, node_id) else 0)
                if key < least and host_fits(state, bench, bidder.job, node_id, rest):
                    best, least = node_id, key
        take(state, bench, bidder, best, rest)
    bidder.pool, bidder.count = pool_id, count
    totals.drawn_w += added
    return True


@kernel
def has_room(state: Any, bench: Any, job_id: int, pool_id: int, full: int, rest: int) -> bool:
    """Return whether a pool has this many whole nodes free, and one more with `rest` devices."""
    pool = state.pools[pool_id]
    partly = rest == 0
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        free = bench.nodes[node_id].free
        whole = free == pool.capacity and full > 0
        if whole and host_fits(state, bench, job_id, node_id, pool.capacity):
            full -= 1
            continue
        if not partly and free >= rest and host_fits(state, bench, job_id, node_id, rest):
            partly = True
        if full == 0 and partly:
            return True
    return full == 0 and partly
