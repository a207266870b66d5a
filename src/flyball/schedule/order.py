"""The order of the queue: computes a job's key from what policies may know of it.

Everything here reads estimates, never true durations.
"""

from __future__ import annotations

import math
from typing import Any

from flyball.core.knobs import Order
from flyball.physics.compile import kernel

SUBMIT = int(Order.SUBMIT)
SHORTEST = int(Order.SHORTEST)
AREA = int(Order.AREA)
REMAINING = int(Order.REMAINING)
SHARES = int(Order.SHARES)
FAIR, HISTORY, INDEX = int(Order.FAIR), int(Order.HISTORY), int(Order.INDEX)
DEMOTED_S = 1e10
"""Seconds added to the key for each queue by which a job was demoted (order = attained)."""


@kernel
def doubled(value: float, done_us: float) -> float:
    """Double an estimate of a job's total work until it exceeds the work done."""
    while value <= done_us:
        value *= 2.0
    return float(value)


@kernel
def guess(job: Any, done_us: float) -> float:
    """Return the total work that expected ends assume, doubled if the job has outlived it."""
    return doubled(job.estimate_us * job.backfill_stretch, done_us)


@kernel
def key_guess(job: Any, done_us: float) -> float:
    """Return the total work that keys assume, doubled if the job has outlived it."""
    return doubled(job.estimate_us * job.order_stretch, done_us)


@kernel
def memo_of(state: Any, job_id: int) -> Any:
    """Return the memo of a job; a blank one if the order keeps none."""
    return state.memos[job_id if len(state.memos) > 1 else 0]


@kernel
def progress(run: Any, now: int) -> float:
    """Return the work done since the running slice was ready."""
    return float(max(0, now - run.ready_us) * run.rate)


@kernel
def expected_end(job: Any, run: Any, now: int) -> int:
    """Return when a running job is expected to end: always after `now`."""
    value = guess(job, run.done_us)
    end = run.ready_us + math.ceil((value - run.done_us) / run.rate)
    while end <= now:
        value *= 2.0
        end = run.ready_us + math.ceil((value - run.done_us) / run.rate)
    return int(end)


@kernel
def attained_us(job: Any, run: Any, memo: Any, running: bool, now: int) -> float:
    """Return the device time received, since the last promotion if there was one."""
    service_us = run.service_us
    if running:
        service_us += (now - run.since_us) * run.devices * job.milli / 1000
    return float(service_us - memo.promoted_us)


@kernel
def demotions(knobs: Any, service_us: float) -> int:
    """Return the queue of a job that has received this much service: 0 is the first."""
    if knobs.attained2_us > 0.0 and service_us >= knobs.attained2_us:
        return 2
    return 1 if service_us >= knobs.attained_us else 0


@kernel
def size_weight(devices: int, milli: int, knobs: Any) -> float:
    """Return the weight of a job's devices in its index; all jobs of a shape have the same."""
    return float(math.pow(devices * milli / 1000, knobs.index_size))


@kernel
def index_s(job: Any, run: Any, running: bool, knobs: Any, weight: float, now: int) -> float:
    """Return the key of order = index: expected work left, weighted by the number of devices.

    Work done lowers it only down to a floor, which grows again once the estimate is outlived: the
    longer a job has run beyond its estimate, the longer it is expected to go on.
    """
    done_us, factor = run.done_us, 1.0
    if running:
        done_us += progress(run, now)
        factor = knobs.index_running
    total_us = job.estimate_us * job.order_stretch
    left_us = max(
        total_us - knobs.index_slope * done_us, knobs.index_floor * max(total_us, done_us)
    )
    return float(left_us / 1e6 * weight * factor)


@kernel
def key_of(job: Any, run: Any, memo: Any, running: bool, knobs: Any, now: int) -> float:
    """Return the job's key in the order; the smallest is first."""
    if knobs.order == SUBMIT or knobs.order == SHARES or knobs.order == FAIR:
        key = job.submit_us / 1e6
    elif knobs.order == SHORTEST:
        key = key_guess(job, run.done_us) / 1e6
    elif knobs.order == AREA:
        key = key_guess(job, run.done_us) / 1e6 * job.devices * job.milli / 1000
    elif knobs.order == HISTORY:
        key = doubled(memo.predicted_us, run.done_us) / 1e6 * job.devices * job.milli / 1000
    elif knobs.order == INDEX:
        weight = size_weight(job.devices, job.milli, knobs)
        key = index_s(job, run, running, knobs, weight, now)
    elif knobs.order == REMAINING:
        done_us = run.done_us
        if running:
            done_us += progress(run, now)
        key = (key_guess(job, done_us) - done_us) / 1e6
    else:
        key = job.submit_us / 1e6
        if knobs.attained2_us > 0.0 and run.attempt > 0:
            key = run.first_start_us / 1e6
        key += DEMOTED_S * demotions(knobs, attained_us(job, run, memo, running, now))
    return aged(key, job, knobs)


@kernel
def aged(key: float, job: Any, knobs: Any) -> float:
    """Return a key with the wait and the priority of the job counted in."""
    return float(key + knobs.ageing * (job.submit_us / 1e6) - knobs.priority_s * job.priority)
