"""Rounds turn target shares into running jobs (order = shares).

A policy has written into `state.shares` which part of the time each job should run in each
pool. In a round the jobs furthest behind their targets are chosen for each pool; those
running elsewhere are preempted, those chosen are started, wide ones first. Capacity that the
policy left over goes to any job that fits. `docs/concept/twin.md` has the exact rule, and that
of the knobs `types`, `starts`, `leftover` and `turns`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.knobs import Backfill, Leftover, Order, Starts, Turns
from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import kernel
from flyball.schedule import ranking
from flyball.schedule.allocate import record, release
from flyball.schedule.nodes import NOWHERE
from flyball.schedule.order import key_of, memo_of
from flyball.schedule.place import fit_pool, within_budget
from flyball.schedule.pool_order import pool_at
from flyball.schedule.queue import push_to_heap
from flyball.schedule.shares.displace import displace
from flyball.schedule.slices import give_way
from flyball.schedule.start import start

SHARES, STRICT = int(Order.SHARES), int(Backfill.STRICT)
BY_POOL, DIVIDED = int(Leftover.BY_POOL), int(Starts.DIVIDED)
OWED = int(Turns.OWED)
OWED_NOTHING = -1e18
"""Rank of a job without a target where turns go by what is owed: after all that have one."""
TARGETED, UNTARGETED, ANY_JOB = 0, 1, 2
"""Which jobs a pool is filled from: those with a target there, those without, or both."""
PENDING, RUNNING = int(Status.PENDING), int(Status.RUNNING)
PREEMPT = int(ActionKind.PREEMPT)
GAVE_WAY, ITS_TURN = int(Reason.GAVE_WAY), int(Reason.ITS_TURN)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def targets_due(state: Any, knobs: Any, now: int) -> bool:
    """Return whether the policy must be asked for targets before this decision."""
    clock = state.clock[0]
    if knobs.order != SHARES or not clock.shares_due or now % knobs.round_us != 0:
        return False
    if clock.pending + clock.running == 0:
        return False
    return bool(clock.asked_us < 0 or now - clock.asked_us >= knobs.solve_us)


@kernel
def share_round(state: Any, knobs: Any, now: int) -> None:
    """Run one round: choose, preempt, start."""
    # 1. Choose a pool for each job. Jobs that hold no devices there yet are newcomers.
    skip_ended(state)
    newcomers = choose(state, knobs, now)
    # 2. Preempt jobs that run elsewhere than in their pool.
    for job_id in range(state.clock[0].first_live, state.clock[0].next_job):
        run = state.runs[job_id]
        if run.status == RUNNING and state.assigned[job_id] != run.pool:
            set_aside(state, knobs, job_id, now)
    # 3. Start newcomers, wide ones first.
    start_newcomers(state, knobs, newcomers, now)
    # 4. Rebuild the queue from the jobs that still wait.
    refill_queue(state, knobs, now)


@kernel
def skip_ended(state: Any) -> None:
    """Advance `first_live` past the jobs that have ended."""
    clock = state.clock[0]
    while clock.first_live < clock.next_job and state.runs[clock.first_live].status > RUNNING:
        clock.first_live += 1


@kernel
def is_active(run: Any) -> bool:
    """Return whether a job is pending or running."""
    return bool(run.status == PENDING or run.status == RUNNING)


@kernel
def received_us(state: Any, job_id: int, pool_id: int, now: int) -> float:
    """Return the time the job ran in the pool since the policy was last asked."""
    run = state.runs[job_id]
    value = state.shares[job_id * len(state.pools) + pool_id].received_us
    if run.status == RUNNING and run.pool == pool_id:
        value += now - max(run.since_us, state.clock[0].asked_us)
    return float(value)


@kernel
def choose(state: Any, knobs: Any, now: int) -> int:
    """Give each pool's capacity to the jobs furthest behind; returns the number of newcomers.

    Writes `state.assigned` and, in the second half of `state.ranking`, the newcomers.
    """
    clock = state.clock[0]
    for job_id in range(clock.first_live, clock.next_job):
        state.assigned[job_id] = -1
    if knobs.leftover == BY_POOL and knobs.backfill != STRICT:
        chosen, newcomers, any_job = choose_by_rank(state, knobs, ANY_JOB, 0, 0, now)
        return int(newcomers)
    chosen, newcomers, any_job = choose_by_rank(state, knobs, TARGETED, 0, 0, now)
    if knobs.backfill != STRICT or not any_job:
        chosen, newcomers, any_job = choose_by_rank(
            state, knobs, UNTARGETED, chosen, newcomers, now
        )
    return int(newcomers)


@kernel
def choose_by_rank(
    state: Any, knobs: Any, among: int, chosen: int, newcomers: int, now: int
) -> tuple:  # type: ignore[type-arg]
    """Choose pool by pool among the jobs with a target there, those without, or both.

    Returns:
        (chosen so far, newcomers so far, whether there was any job to choose from).
    """
    ranks, half, any_job = state.ranking, len(state.jobs), False
    for at in range(len(state.pools)):
        pool_id = pool_at(state, knobs, at, now)
        count, hosted = rank_pool(state, knobs, pool_id, among, now)
        any_job = any_job or count > 0
        left = left_milli(state, pool_id) if count > 0 else 0
        while count > 0 and (left > 0 or hosted):
            job_id = ranks[0].job
            ranking.drop_top(ranks, 0, count)
            count -= 1
            job, run = state.jobs[job_id], state.runs[job_id]
            asks = job.devices * job.milli
            if asks > left:
                continue
            left -= asks
            chosen += 1
            state.assigned[job_id] = pool_id
            if run.status != RUNNING or run.pool != pool_id:
                ranking.push(ranks, half, newcomers, asks, -chosen, job_id)
                newcomers += 1
    return chosen, newcomers, any_job


@kernel
def left_milli(state: Any, pool_id: int) -> int:
    """Return the thousandths of devices that are up in the pool and not assigned in this round."""
    pool, clock = state.pools[pool_id], state.clock[0]
    left = 0
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        if not state.nodes[node_id].down:
            left += pool.capacity * MILLI_PER_DEVICE
    for job_id in range(clock.first_live, clock.next_job):
        if state.assigned[job_id] == pool_id:
            left -= state.jobs[job_id].devices * state.jobs[job_id].milli
    return int(left)


@kernel
def rank_pool(state: Any, knobs: Any, pool_id: int, among: int, now: int) -> tuple:  # type: ignore[type-arg]
    """Rank the jobs that could run in the pool, in the first half of `ranking`.

    Returns:
        (number of jobs; whether one of them asks for no device).
    """
    clock, pools, count, hosted = state.clock[0], len(state.pools), 0, False
    bit = ONE << np.uint64(pool_id)
    for job_id in range(clock.first_live, clock.next_job):
        if state.assigned[job_id] >= 0 or not is_active(state.runs[job_id]):
            continue
        if state.shapes[state.jobs[job_id].shape_id].pools & bit == ZERO:
            continue
        share = state.shares[job_id * pools + pool_id]
        if among != ANY_JOB and (share.target > 0.0) != (among == TARGETED):
            continue
        served_us = received_us(state, job_id, pool_id, now)
        rank = state.ranking[count]
        rank.first = share.target / (knobs.round_us / 2 + served_us)
        if knobs.turns == OWED:
            rank.first = OWED_NOTHING
            if share.target > 0.0:
                since_us = now - clock.asked_us
                rank.first = share.deficit_us + share.target * since_us - served_us
        rank.second, rank.job = share.deficit_us, job_id
        hosted = hosted or state.jobs[job_id].devices == 0
        count += 1
    ranking.heapify(state.ranking, 0, count)
    return count, hosted


@kernel
def set_aside(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Take a running job's devices back; it may start again in this decision."""
    record(state, PREEMPT, job_id, -1, ZERO, GAVE_WAY, 0.0)
    give_way(state, job_id, now)
    release(state, knobs, job_id, now)


@kernel
def start_newcomers(state: Any, knobs: Any, count: int, now: int) -> None:
    """Start the chosen jobs in their pools, as far as there is room."""
    ranks, half = state.ranking, len(state.jobs)
    displaced = 0
    while count > 0:
        job_id = ranks[half].job
        ranking.drop_top(ranks, half, count)
        count -= 1
        pool_id = state.assigned[job_id]
        job = state.jobs[job_id]
        if knobs.starts == DIVIDED and job.submit_us > state.clock[0].asked_us:
            continue  # its devices stay idle until targets are set for it
        fit, _plain = fit_pool(state, knobs, job, pool_id, False)
        if fit == NOWHERE:
            fit, moved = displace(state, knobs, job, pool_id)
            for at in range(moved):
                victim_id = state.victims[at].tie
                set_aside(state, knobs, victim_id, now)
                victim = state.jobs[victim_id]
                displaced += 1
                asks = victim.devices * victim.milli
                ranking.push(ranks, half, count, asks, -half - displaced, victim_id)
                count += 1
        elif not within_budget(state, knobs, job, pool_id, state.clock[0].power_w):
            fit = NOWHERE
        if fit != NOWHERE:
            start(state, knobs, job_id, pool_id, fit, False, now, ITS_TURN, 0.0)


@kernel
def refill_queue(state: Any, knobs: Any, now: int) -> None:
    """Rebuild the queue, because many jobs left it at once."""
    clock = state.clock[0]
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        shape.pending, shape.blocked = 0, 0
    clock.pending = 0
    for job_id in range(clock.first_live, clock.next_job):
        run = state.runs[job_id]
        if run.status == PENDING:
            key = key_of(state.jobs[job_id], run, memo_of(state, job_id), False, knobs, now)
            push_to_heap(state, key, job_id)
            clock.pending += 1
