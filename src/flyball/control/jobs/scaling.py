"""How the speed of an elastic job grows with its devices, as far as anybody knows.

A model whose step times were published is known by its name. Of any other the part of a step that
devices share among themselves is assumed until the job was measured with two sizes; what was
measured is on record (`EventKind.SCALED`), so that a decision can be made again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from flyball.control.jobs.request import Demand
from flyball.core.jobs import Job
from flyball.core.live import Event
from flyball.physics.goodput import AMDAHL_PREFIX, stated_part

SCALING = "scaling"
"""In a job's values: the part of its steps that devices share, and by how many changes of size it
was measured."""
ASSUMED = 0.9
"""That part, of a job that was never measured. A device more or less then corrects it."""
STEP = 0.05
"""Parts are told apart in these steps: jobs alike stay alike."""


class Scaling(NamedTuple):
    """What was measured of a job.

    Attributes:
        parallel: the part of a step that devices share among themselves.
        changes: of size, that it was measured by.
    """

    parallel: float
    changes: int


def scaled(job: Job, event: Event) -> Job:
    """It was measured, or one like it was."""
    found = [float(event["parallel"]), int(event["changes"])]
    return replace(job, values={**job.values, SCALING: found})


def scaling_of(job: Job) -> Scaling | None:
    """What was measured of a job, None = nothing."""
    found = job.values.get(SCALING)
    return Scaling(float(found[0]), int(found[1])) if found else None


def model_of(job: Job, demand: Demand) -> str:
    """The name under which the twin knows how fast it is, none = it runs as it asked to."""
    spec = job.spec
    if not spec.elastic:
        return demand.known_model(spec.model)
    if demand.grows(spec.model):
        return spec.model
    return f"{AMDAHL_PREFIX}{_shared(job):.2f}"


def time_factor(job: Job, asked: int, devices: int) -> float:
    """How much longer it takes on so many devices than on those that it asked for."""
    if not devices or devices == asked:
        return 1.0
    parallel = _shared(job)
    return (1.0 - parallel + parallel / devices) / (1.0 - parallel + parallel / asked)


def _shared(job: Job) -> float:
    """As it was measured, else as its owner states it, else as is assumed."""
    found, stated = scaling_of(job), stated_part(job.spec.model)
    if found is None:
        return ASSUMED if stated is None else stated
    return round(round(found.parallel / STEP) * STEP, 2)
