"""Moves: in a round, running jobs go on in a faster pool that has room (knob `move_s`).

A move costs what a preemption costs: the checkpoint and the restart. A job moves only if it is
expected to end earlier by more than `move_s` all the same. Pending jobs come first: moves use
what is left when no pending job fits any more, and the room they leave behind goes to pending jobs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.cluster import MAX_POOLS
from flyball.core.codes import ActionKind, Reason
from flyball.physics.compile import bit_count, kernel, lowest_bit
from flyball.schedule import heap, index
from flyball.schedule.allocate import (
    fewest_nodes,
    held_w,
    rate_of,
    record,
    release,
    waking_us,
)
from flyball.schedule.gang import list_gang
from flyball.schedule.nodes import NOWHERE
from flyball.schedule.order import guess, progress
from flyball.schedule.place import fit_pool, within_budget
from flyball.schedule.slices import give_way
from flyball.schedule.start import start

PREEMPT, MOVED_UP = int(ActionKind.PREEMPT), int(Reason.MOVED_UP)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def move_up(state: Any, knobs: Any, now: int) -> bool:
    """Move running jobs to faster pools, those that gain most first; True if any was moved."""
    every_pool = ~ZERO
    if not has_room(state, every_pool):
        return False
    count, better_pools = rank_moves(state, knobs, now)
    moved = False
    while count > 0 and has_room(state, better_pools):
        top = state.victims[0]
        gain_us, job_id, pool_id = -top.key, top.tie // MAX_POOLS, top.tie % MAX_POOLS
        heap.drop_top(state.victims, 0, count)
        count -= 1
        if move(state, knobs, job_id, pool_id, now):
            moved = True
            continue
        gain_us, pool_id, _wanted = next_best(state, knobs, job_id, gain_us, pool_id, now)
        if pool_id >= 0:
            heap.push(state.victims, 0, count, -gain_us, job_id * MAX_POOLS + pool_id)
            count += 1
    return moved


@kernel
def has_room(state: Any, better_pools: Any) -> bool:
    """Return whether any device of these pools is free; if fractions are in use, assume so.

    If none is, none of the pairs left can move, and so none of them makes room for another.
    """
    if len(state.devices) > 1:
        return True
    for pool_id in range(len(state.pools)):
        if (better_pools >> np.uint64(pool_id)) & ONE == ZERO:
            continue
        if index.free_counts(state.bitmaps, state.pools[pool_id], 1) != ZERO:
            return True
    return False


@kernel
def rank_moves(state: Any, knobs: Any, now: int) -> tuple:  # type: ignore[type-arg]
    """Put each job that would gain into the heap `victims`, with its best pool.

    It ignores whether there is room, and that nodes may be asleep.

    Returns:
        (how many jobs; all pools where any of them would gain, as bits).
    """
    count, better_pools = 0, ZERO
    for node_id in range(len(state.nodes)):
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            job_id = state.rows[row_id].job
            if state.runs[job_id].first_row == row_id and may_move(state, knobs, job_id, now):
                gain_us, pool_id, pools = next_best(state, knobs, job_id, np.inf, -1, now)
                if pool_id >= 0:
                    better_pools |= pools
                    entry = state.victims[count]
                    entry.key, entry.tie = -gain_us, job_id * MAX_POOLS + pool_id
                    count += 1
            row_id = state.rows[row_id].sibling
    heap.heapify(state.victims, 0, count)
    return count, better_pools


@kernel
def may_move(state: Any, knobs: Any, job_id: int, now: int) -> bool:
    """Return whether the bounds let a job move: not too soon, too often or at too high a cost."""
    job, run = state.jobs[job_id], state.runs[job_id]
    if now - run.ready_us < knobs.round_us or run.attempt > knobs.move_starts:
        return False
    cost_us = run.attempt * (job.checkpoint_us + job.restart_us)
    total_us = guess(job, run.done_us + progress(run, now))
    return bool(cost_us <= knobs.move_cost * total_us)


@kernel
def saved_us(state: Any, job_id: int, rate: float, wait_us: int, now: int) -> float:
    """Return how much earlier a job is expected to end if it goes on elsewhere at this rate."""
    job, run = state.jobs[job_id], state.runs[job_id]
    done_us = run.done_us + progress(run, now)
    kept_us = run.done_us + max(0, now - run.ready_us - job.checkpoint_us) * run.rate
    total_us = guess(job, done_us)
    there_us = job.restart_us + wait_us + (total_us - kept_us) / rate
    return float((total_us - done_us) / run.rate - there_us)


@kernel
def next_best(state: Any, knobs: Any, job_id: int, below_us: float, after: int, now: int) -> tuple:  # type: ignore[type-arg]
    """Find the job's best pool behind the pool `after`, which would save `below_us`.

    Returns:
        (what it saves, the pool or -1; it and those behind it, as bits); pools are ranked by
        what they save, then by index.
    """
    job, run = state.jobs[job_id], state.runs[job_id]
    best_us, best, worthwhile = 0.0, -1, ZERO
    pools = state.shapes[job.shape_id].pools
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        rate = rate_of(state, job, pool_id, knobs.cap, False)
        if pool_id == run.pool or rate <= run.rate:
            continue
        gain_us = saved_us(state, job_id, rate, 0, now)
        if gain_us > below_us or (gain_us == below_us and pool_id <= after):
            continue
        if gain_us <= knobs.move_us:
            continue
        worthwhile |= ONE << np.uint64(pool_id)
        if best < 0 or gain_us > best_us:
            best_us, best = gain_us, pool_id
    return best_us, best, worthwhile


@kernel
def saved_at(state: Any, knobs: Any, job_id: int, pool_id: int, fit: int, now: int) -> float:
    """Return what a move to the place `fit` saves: its nodes may be asleep, or too many."""
    job, plan, first = state.jobs[job_id], state.plan, state.clock[0].actions
    if fit >= 0:
        rate = rate_of(state, job, pool_id, knobs.cap, False)
        return float(saved_us(state, job_id, rate, waking_us(state, fit, now), now))
    end, wait_us = list_gang(state, pool_id, job, fit, False), 0
    for at in range(first, end):
        wait_us = max(wait_us, waking_us(state, plan[at].node, now))
    spread = end - first > fewest_nodes(job.devices, state.pools[pool_id].capacity)
    rate = rate_of(state, job, pool_id, knobs.cap, spread)
    return float(saved_us(state, job_id, rate, wait_us, now))


@kernel
def power_without(state: Any, job_id: int) -> float:
    """Return the cluster's draw without a running job."""
    power_w, row_id = state.clock[0].power_w, state.runs[job_id].first_row
    while row_id >= 0:
        power_w -= held_w(state, job_id, bit_count(state.rows[row_id].mask))
        row_id = state.rows[row_id].next
    return float(power_w)


@kernel
def move(state: Any, knobs: Any, job_id: int, pool_id: int, now: int) -> bool:
    """Move a running job to a pool if there is room and it still pays; return whether it moved."""
    job = state.jobs[job_id]
    fit, _plain = fit_pool(state, knobs, job, pool_id, False)
    if fit == NOWHERE:
        return False
    gain_us = saved_at(state, knobs, job_id, pool_id, fit, now)
    if gain_us <= knobs.move_us:
        return False
    if not within_budget(state, knobs, job, pool_id, power_without(state, job_id)):
        return False
    record(state, PREEMPT, job_id, -1, ZERO, MOVED_UP, gain_us / 1e6)
    give_way(state, job_id, now)
    release(state, knobs, job_id, now)
    state.clock[0].pending += 1  # as if it had gone through the queue
    start(state, knobs, job_id, pool_id, fit, False, now, MOVED_UP, gain_us / 1e6)
    return True
