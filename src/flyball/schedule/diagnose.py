"""Queries that `explain` puts to the compiled decision code, without deciding anything.

Each takes packed knobs. Those that change the state must be given a copy of it.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status
from flyball.physics.compile import entry
from flyball.schedule import index
from flyball.schedule.allocate import extra_w, rate_of
from flyball.schedule.history import expected_us
from flyball.schedule.order import expected_end, guess, key_of, memo_of
from flyball.schedule.place import find
from flyball.schedule.reserve import reserve
from flyball.schedule.tenants import usage_at

PENDING, RUNNING = int(Status.PENDING), int(Status.RUNNING)


@entry
def find_now(state: Any, packed: Any, job_id: int, respect_head: bool) -> tuple:  # type: ignore[type-arg]
    """Call `place.find` at the state's instant: (pool or -1, node or a negative fit)."""
    pool_id, fit, _avoid = find(state, packed[0], job_id, respect_head, state.clock[0].now_us)
    return pool_id, fit


@entry
def most_devices(state: Any, packed: Any, job_id: int, respect_head: bool) -> tuple:  # type: ignore[type-arg]
    """Return the largest smaller gang that would start now: (devices or 0, pool, node).

    Changes the job's request, and leaves it at that size.
    """
    job, now = state.jobs[job_id], state.clock[0].now_us
    while job.devices > 1:
        job.devices -= 1
        pool_id, fit, _avoid = find(state, packed[0], job_id, respect_head, now)
        if pool_id >= 0:
            return job.devices, pool_id, fit
    return 0, -1, -1


@entry
def figures(state: Any, packed: Any, job_id: int, pool_id: int) -> tuple:  # type: ignore[type-arg]
    """Return what policies know of a job in a pool: (key, estimated work left, rate, watts)."""
    job, run, knobs = state.jobs[job_id], state.runs[job_id], packed[0]
    key = key_of(
        job, run, memo_of(state, job_id), run.status == RUNNING, knobs, state.clock[0].now_us
    )
    left_us = guess(job, run.done_us) - run.done_us
    rate = rate_of(state, job, pool_id, knobs.cap, False)
    return key, left_us, rate, extra_w(state, job, pool_id, knobs.cap, job.devices)


@entry
def list_keys(state: Any, packed: Any, keys: Any, ends: Any) -> None:
    """Write the key of every job that is pending or running, and the expected end of the latter."""
    now = state.clock[0].now_us
    for job_id in range(len(state.jobs)):
        job, run = state.jobs[job_id], state.runs[job_id]
        if run.status == PENDING or run.status == RUNNING:
            memo = memo_of(state, job_id)
            keys[job_id] = key_of(job, run, memo, run.status == RUNNING, packed[0], now)
        if run.status == RUNNING:
            ends[job_id] = expected_end(job, run, now)


@entry
def prediction(state: Any, job_id: int) -> float:
    """Return the work that history would predict for a job that joined the queue now."""
    return expected_us(state, job_id)


@entry
def list_levels(state: Any, packed: Any, levels: Any) -> None:
    """Write the level of every tenant, in the order of their rows."""
    for at in range(len(levels)):
        tenant = state.tenants[at * (1 + len(state.pools))]
        usage = usage_at(tenant, packed[0], state.clock[0].now_us)
        levels[at] = (usage + tenant.share) / tenant.weight


@entry
def reserve_for(state: Any, job_id: int) -> tuple:  # type: ignore[type-arg]
    """Return when and in which pool the job is expected to fit: (instant, pool or -1).

    Overwrites the state's reservation.
    """
    clock = state.clock[0]
    clock.actions = 0
    reserve(state, job_id, clock.now_us)
    return clock.reserved_us, clock.reserved_pool


@entry
def bring_up(state: Any) -> None:
    """Make every node that is down available, idle, to see whether that would help."""
    for node_id in range(len(state.nodes)):
        node = state.nodes[node_id]
        if node.down:
            pool = state.pools[node.pool]
            node.down = 0
            node.power_w = pool.host_w + pool.capacity * pool.idle_w
            state.clock[0].power_w += node.power_w
            index.insert(state.bitmaps, pool, node.free, node_id - pool.first_node)
    state.clock[0].capacity_grew = 1
