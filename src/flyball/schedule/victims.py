"""The running jobs that may be preempted in a round, worst first.

Every pending job that looks for room goes through them from the first on, so what it reads of
most of them is in the list itself, and not only in the records of the jobs.

The field `reach` of a record (`reach_at`) tells which of them must go at least: a pending job finds
k devices on a node of the pool only if the key listed there is beyond its own. It is the highest
key, over the nodes, of the last job that would have to go there. Nodes lose their worst jobs first,
and what they lose is taken, so that this can only become less while the round goes on. Only where a
gang gave way for one of its nodes do others gain: then no bound holds any more (`forget_reach`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import bit_count, kernel
from flyball.schedule import heap
from flyball.schedule.nodes import NOWHERE, is_cleared
from flyball.schedule.order import key_of, memo_of

ZERO = np.uint64(0)
SET_ASIDE = 1
"""Tie of a victim that was preempted already."""
PLACE_BITS = 24
"""Other ties are -(job * 2**24 + the record that tells where the job is): the last job first."""


@kernel
def collect_victims(state: Any, knobs: Any, worse_than: float, now: int) -> None:
    """List the running jobs that may be preempted by a job with the key `worse_than`."""
    bounded = uses_whole_devices(state)
    fill_reach(state, -np.inf if bounded else np.inf)
    count = 0
    for node_id in range(len(state.nodes)):
        row_id, listed = state.nodes[node_id].first_row, 0
        while row_id >= 0:
            row = state.rows[row_id]
            run = state.runs[row.job]
            is_first = run.first_row == row_id
            if (is_first or bounded) and may_give_way(knobs, run, now):
                memo = memo_of(state, row.job)
                key = key_of(state.jobs[row.job], run, memo, True, knobs, now)
                if key > worse_than + knobs.margin_s:
                    if is_first:
                        list_victim(state, count, key, row.job)
                        count += 1
                    if bounded:
                        listed = list_key(state, listed, key, bit_count(row.mask))
            row_id = row.sibling
        raise_reach(state, node_id, listed)
    sort_victims(state, count)


@kernel
def uses_whole_devices(state: Any) -> bool:
    """Return whether jobs take whole devices and nothing else, so that bounds can be counted."""
    fractions = len(state.devices) == len(state.device_scratch)
    return not (fractions or state.clock[0].hosts or len(state.pairs) > 0)


@kernel
def may_give_way(knobs: Any, run: Any, now: int) -> bool:
    """Return whether a job may be preempted in a round: not too soon, nor too often."""
    if knobs.preempt_starts > 0 and run.attempt >= knobs.preempt_starts:
        return False
    return bool(now - run.ready_us >= knobs.round_us)


@kernel
def list_victim(state: Any, at: int, key: float, job_id: int) -> None:
    """Write a job into the list, and where it is."""
    victim, run = state.victims[at], state.runs[job_id]
    row = state.rows[run.first_row]
    victim.key, victim.tie = -key, -((job_id << PLACE_BITS) + at)
    victim.pool, victim.node, victim.devices = run.pool, -1, 0
    if row.next < 0 and row.milli == MILLI_PER_DEVICE and row.mask != ZERO:
        victim.node, victim.devices = row.node, bit_count(row.mask)


@kernel
def sort_victims(state: Any, count: int) -> None:
    """Prepare the list for `nth_victim`."""
    heap.heapify(state.victims, 0, count)
    state.clock[0].victim_count, state.clock[0].victims_sorted = count, 0


@kernel
def job_of(victim: Any) -> int:
    """Return the job of a victim that was not set aside."""
    return int(-victim.tie >> PLACE_BITS)


@kernel
def place_of(state: Any, victim: Any) -> Any:
    """Return the record that tells where a victim is."""
    return state.victims[-victim.tie & ((1 << PLACE_BITS) - 1)]


@kernel
def nth_victim(state: Any, n: int) -> int:
    """Return the index in `victims` of the n-th worst (from 0), or -1; sorts lazily."""
    clock = state.clock[0]
    if n >= clock.victim_count:
        return -1
    while clock.victims_sorted <= n:
        left = clock.victim_count - clock.victims_sorted
        top = state.victims[0]
        key, tie = top.key, top.tie
        heap.drop_top(state.victims, 0, left)
        worst = state.victims[left - 1]
        worst.key, worst.tie = key, tie
        clock.victims_sorted += 1
    return int(clock.victim_count - 1 - n)


@kernel
def stands_on(state: Any, victim: Any, node_id: int) -> bool:
    """Return whether the victim has a row on the node (NOWHERE: on any cleared node)."""
    place = place_of(state, victim)
    if place.node >= 0 and node_id != NOWHERE:
        return bool(place.node == node_id)
    row_id = state.runs[job_of(victim)].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        if row.node == node_id or (node_id == NOWHERE and is_cleared(state, row.node)):
            return True
        row_id = row.next
    return False


@kernel
def reach_at(state: Any, pool_id: int, devices: int) -> int:
    """Return the record of `victims` that has a bound; there is one pool more, as a scratch row."""
    return int(pool_id * len(state.avail) + devices)


@kernel
def out_of_reach(state: Any, pool_id: int, devices: int, key: float) -> bool:
    """Return whether no node of the pool can have the devices for a job with this key."""
    return bool(state.victims[reach_at(state, pool_id, devices)].reach <= key)


@kernel
def list_key(state: Any, count: int, key: float, devices: int) -> int:
    """Insert the key of a node's job into the scratch row, once for each device; highest first.

    Returns:
        How many are in that row now.
    """
    victims, row, at = state.victims, reach_at(state, len(state.pools), 0), count
    while at > 0 and victims[row + at - 1].reach < key:
        at -= 1
        victims[row + at + devices].reach = victims[row + at].reach
    for device in range(devices):
        victims[row + at + device].reach = key
    return int(count + devices)


@kernel
def raise_reach(state: Any, node_id: int, listed: int) -> None:
    """Take the keys of a node's jobs, `listed` in the scratch row, into the bounds of its pool."""
    if listed == 0:
        return
    victims, node = state.victims, state.nodes[node_id]
    row, first = reach_at(state, len(state.pools), 0), reach_at(state, node.pool, 0)
    for devices in range(1, node.free + listed + 1):
        key = victims[row + max(0, devices - node.free - 1)].reach
        bound = victims[first + devices]
        bound.reach = max(bound.reach, key)


@kernel
def fill_reach(state: Any, key: float) -> None:
    """Set all bounds to one key."""
    for at in range(reach_at(state, len(state.pools) + 1, 0)):
        state.victims[at].reach = key


@kernel
def forget_reach(state: Any) -> None:
    """Drop all bounds: room may be found anywhere."""
    fill_reach(state, np.inf)
