"""The order of the queue: what policies may know of a job, and the key it gives.

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
DEMOTED_S = 1e10
"""Added to the key of a job that has received its share (order = attained)."""


@kernel
def guess(job: Any, done_us: float) -> float:
    """The estimate of a job's whole work: doubled until the job has not outlived it."""
    value = job.estimate_us
    while value <= done_us:
        value *= 2.0
    return float(value)


@kernel
def progress(run: Any, now: int) -> float:
    """Work done since the running slice was ready."""
    return float(max(0, now - run.ready_us) * run.rate)


@kernel
def expected_end(job: Any, run: Any, now: int) -> int:
    """When a running job is expected to end: always after `now`."""
    value = guess(job, run.done_us)
    end = run.ready_us + math.ceil((value - run.done_us) / run.rate)
    while end <= now:
        value *= 2.0
        end = run.ready_us + math.ceil((value - run.done_us) / run.rate)
    return int(end)


@kernel
def key_of(job: Any, run: Any, running: bool, knobs: Any, now: int) -> float:
    """The job's place in the order; the smallest key is first."""
    if knobs.order == SUBMIT or knobs.order == SHARES:
        key = job.submit_us / 1e6
    elif knobs.order == SHORTEST:
        key = guess(job, run.done_us) / 1e6
    elif knobs.order == AREA:
        key = guess(job, run.done_us) / 1e6 * job.devices * job.milli / 1000
    elif knobs.order == REMAINING:
        done_us = run.done_us
        if running:
            done_us += progress(run, now)
        key = (guess(job, done_us) - done_us) / 1e6
    else:
        service_us = run.service_us
        if running:
            service_us += (now - run.since_us) * job.devices * job.milli / 1000
        key = job.submit_us / 1e6
        if service_us >= knobs.attained_us:
            key += DEMOTED_S
    return float(key + knobs.ageing * (job.submit_us / 1e6) - knobs.priority_s * job.priority)
