"""Decides how fast an elastic job is assumed to run on another number of devices.

A model whose step times were published is recognised by its name. For any other, the parallel part
of a step (the part that devices share) is assumed until the job was measured at two sizes; the
measurement is in the journal (`core.events.Scaled`), so that a decision can be made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from flyball.control.jobs.request import Demand
from flyball.core.events import Scaled
from flyball.core.job_facts import SCALING, scaling_of
from flyball.core.jobs import Job
from flyball.physics.goodput import AMDAHL_PREFIX, stated_part

ASSUMED_PARALLEL = 0.9
"""Parallel part of a job that was never measured; the first resize corrects it."""
PARALLEL_STEP = 0.05
"""Parallel parts are rounded to this, so that similar jobs stay in one group."""


def scaled(job: Job, event: Scaled) -> Job:
    """Return the job with the scaling that was measured on it or on a similar job."""
    measured = [float(event.parallel), event.changes]
    return replace(job, values={**job.values, SCALING: measured})


def scaled_events(
    rows: Iterable[Sequence[float]], jobs: Mapping[int, Job], now_us: int
) -> list[Scaled]:
    """Return the journal's events for measured scalings of jobs that are still active."""
    return [
        Scaled(now_us, int(job), float(parallel), int(changes))
        for job, parallel, changes in rows
        if int(job) in jobs
    ]


def model_of(job: Job, demand: Demand) -> str:
    """Return the model name under which the twin looks up the job's speed."""
    spec = job.spec
    if not spec.elastic:
        return demand.known_model(spec.model)
    if demand.grows(spec.model):
        return spec.model
    return f"{AMDAHL_PREFIX}{_parallel_part(job):.2f}"


def time_factor(job: Job, requested: int, devices: int) -> float:
    """Return how much longer the job takes on `devices` than on the number it requested."""
    if not devices or devices == requested:
        return 1.0
    parallel = _parallel_part(job)
    return (1.0 - parallel + parallel / devices) / (1.0 - parallel + parallel / requested)


def _parallel_part(job: Job) -> float:
    """Return the measured part, else the one its owner states, else the assumed one."""
    measured, stated = scaling_of(job), stated_part(job.spec.model)
    if measured is None:
        return ASSUMED_PARALLEL if stated is None else stated
    return round(round(measured.parallel / PARALLEL_STEP) * PARALLEL_STEP, 2)
