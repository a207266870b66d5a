"""Chooses where a job starts: the pool and the node. Reads capacity, changes nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyball.core.knobs import Place, Span
from flyball.core.units import MILLI_PER_DEVICE, POWER_SLACK
from flyball.physics.compile import hot, kernel, lowest_bit
from flyball.schedule import index
from flyball.schedule.allocate import extra_w, own_w, rate_of, setup_us
from flyball.schedule.gang import fits_gathered, fits_whole_nodes
from flyball.schedule.nodes import GATHERED, NOWHERE, WHOLE_NODES, fit_host, fit_node, fit_open
from flyball.schedule.order import guess
from flyball.schedule.place_fgd import gang_score, least_fragmenting, score_on
from flyball.schedule.place_random import draw, drawn_node

ONE = np.uint64(1)
ZERO = np.uint64(0)
BEST_FIT, PACK, SPREAD = int(Place.BEST_FIT), int(Place.PACK), int(Place.SPREAD)
FASTEST, EFFICIENT, HOLD = int(Place.FASTEST), int(Place.EFFICIENT), int(Place.HOLD)
FGD, RANDOM = int(Place.FGD), int(Place.RANDOM)
SPAN_ANY = int(Span.ANY)


@kernel
def hopeless(bitmaps: Any, pool: Any, job: Any) -> bool:
    """Return whether the index alone shows that a gang confined to whole nodes cannot fit."""
    if job.devices > pool.capacity:
        return bool(bitmaps[index.base_of(pool, pool.capacity)] < job.devices // pool.capacity)
    return bool(job.devices > 0 and index.free_counts(bitmaps, pool, job.devices) == ZERO)


@kernel
def fit_pool(state: Any, knobs: Any, job: Any, pool_id: int, avoid: bool) -> tuple:  # type: ignore[type-arg]
    """Find where in one pool a job fits.

    Returns:
        (node, WHOLE_NODES, GATHERED or NOWHERE; True if it is a single node of whole devices,
        so that the place rule compares the number of devices left there).
    """
    if job.devices > state.pools[pool_id].capacity:
        if fits_whole_nodes(state, pool_id, job, avoid):
            return WHOLE_NODES, False
    elif knobs.place >= FGD:
        if knobs.place == FGD:
            node_id = least_fragmenting(state, job, pool_id, avoid)
        else:
            node_id = drawn_node(state, job, pool_id, avoid)
        if node_id >= 0:
            return node_id, True
    elif job.devices == 0:
        return fit_host(state, pool_id, job, knobs.place == SPREAD, avoid), True
    else:
        if job.milli < MILLI_PER_DEVICE:
            node_id = fit_open(state, pool_id, job, avoid)
            if node_id >= 0:
                return node_id, False
        node_id = fit_node(state, pool_id, job, job.devices, knobs.place == SPREAD, avoid)
        if node_id >= 0:
            return node_id, True
    gathers = knobs.span == SPAN_ANY and job.milli == MILLI_PER_DEVICE and job.devices > 0
    if gathers and fits_gathered(state, pool_id, job, avoid):
        return GATHERED, False
    return NOWHERE, False


@kernel
def score(
    state: Any, knobs: Any, job: Any, pool_id: int, node_id: int, plain: bool, avoid: bool
) -> float:
    """Return the score by which the place rule compares pools; lowest is best."""
    if knobs.place == FGD:
        if node_id >= 0:
            return float(score_on(state, job, node_id))
        return float(gang_score(state, job, pool_id, node_id, avoid))
    if knobs.place == RANDOM:
        drawn = node_id if node_id >= 0 else state.pools[pool_id].first_node
        return float(draw(state.clock[0], drawn))
    if knobs.place >= FASTEST:
        rate = rate_of(state, job, pool_id, knobs.cap, False)
        return (
            own_w(state, job, pool_id, knobs.cap, job.devices) / rate
            if knobs.place == EFFICIENT
            else -rate
        )
    if not plain:
        return -1e9 if knobs.place == SPREAD else 0.0
    free = state.nodes[node_id].free
    if knobs.place == BEST_FIT:
        return float(free - job.devices)
    if knobs.place == PACK:
        return float(free - state.pools[pool_id].capacity)
    return float(-free)


@kernel
def within_budget(state: Any, knobs: Any, job: Any, pool_id: int, power_w: float) -> bool:
    """Return whether the power budget allows the job to start in the pool on top of `power_w`."""
    clock = state.clock[0]
    if clock.budget_w <= 0.0:
        return True
    added = extra_w(state, job, pool_id, knobs.cap, job.devices)
    return bool(power_w + added <= clock.budget_w * POWER_SLACK)


@kernel
def would_delay_head(
    state: Any, knobs: Any, job: Any, left_us: float, setup: int, pool_id: int, now: int
) -> bool:
    """Return whether the job would run in the reserved pool past the reserved instant."""
    clock = state.clock[0]
    if clock.reserved_pool != pool_id:
        return False
    run_us = math.ceil(left_us / rate_of(state, job, pool_id, knobs.cap, False))
    return bool(now + setup + run_us > clock.reserved_us)


@kernel
def slowest_worth_using(state: Any, knobs: Any, job: Any, left_us: float, pools: Any) -> float:
    """Return the longest run time that place = hold accepts, by the fastest pool of the job."""
    best = 0.0
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        best = max(best, rate_of(state, job, pool_id, knobs.cap, False))
    return float(left_us / best + knobs.hold_us)


@hot
def find(state: Any, knobs: Any, job_id: int, respect_head: bool, now: int) -> tuple:  # type: ignore[type-arg]
    """Find where the job should start now.

    Args:
        respect_head: do not delay the reservation of the head.

    Returns:
        (pool or -1, node or WHOLE_NODES or GATHERED, whether reserved nodes must be avoided).
    """
    job, run = state.jobs[job_id], state.runs[job_id]
    left_us = guess(job, run.done_us) - run.done_us
    setup = setup_us(state.clock[0], job, run)
    return find_for(state, knobs, job, left_us, setup, respect_head, now)


@hot
def find_for(
    state: Any, knobs: Any, job: Any, left_us: float, setup: int, respect_head: bool, now: int
) -> tuple:  # type: ignore[type-arg]
    """Find a place (see `find`) for a job like this one with `left_us` of work left."""
    pools = state.shapes[job.shape_id].pools
    power_w = state.clock[0].power_w
    may_be_hopeless = job.milli == MILLI_PER_DEVICE and knobs.span != SPAN_ANY
    longest_us = 0.0
    if knobs.place == HOLD:
        longest_us = slowest_worth_using(state, knobs, job, left_us, pools)
    best_pool, best_node, best_avoid, best_score = -1, NOWHERE, False, 0.0
    while pools != ZERO:
        pool_id = lowest_bit(pools)
        pools &= pools - ONE
        if may_be_hopeless and hopeless(state.bitmaps, state.pools[pool_id], job):
            continue
        avoid = respect_head and would_delay_head(state, knobs, job, left_us, setup, pool_id, now)
        node_id, plain = fit_pool(state, knobs, job, pool_id, avoid)
        if node_id == NOWHERE or not within_budget(state, knobs, job, pool_id, power_w):
            continue
        if knobs.place == HOLD:
            if left_us / rate_of(state, job, pool_id, knobs.cap, False) > longest_us:
                continue
        if best_pool < 0 and pools == ZERO:  # nothing to compare it with
            return pool_id, node_id, avoid
        value = score(state, knobs, job, pool_id, node_id, plain, avoid)
        if best_pool < 0 or value < best_score:
            best_pool, best_node, best_avoid, best_score = pool_id, node_id, avoid, value
    return best_pool, best_node, best_avoid
