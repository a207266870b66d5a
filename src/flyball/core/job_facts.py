"""What a job's record says of it: its kind, how long it ran, how it scales, how it was resized.

Control plane and learners read jobs through these functions, so that both mean the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import PurePath
from typing import NamedTuple

from flyball.core.jobs import Job, JobSpec
from flyball.core.units import MILLI_PER_DEVICE

ENOUGH_ENDED = 3
"""Number of ended jobs from which run times of a group are trusted."""
INTERPRETERS = ("bash", "deepspeed", "julia", "node", "perl", "python", "rscript", "sh", "torchrun")
"""Programs whose first argument names what really runs."""
SCALING = "scaling"
"""Key in a job's values: its parallel part, and the number of resizes that part was measured by."""
SHORTEST_SPEED_SPAN_S = 1.0
"""Shortest span over which a speed is measured."""

Steps = tuple[Sequence[float], Sequence[float]]
"""Times in seconds since 1970, and the step number reported at each."""


class RunTime(NamedTuple):
    """A predicted run time.

    Attributes:
        quantiles: in seconds.
        like: number of ended jobs of the same owner and kind.
    """

    quantiles: tuple[float, ...]
    like: int

    def rounded(self) -> RunTime:
        """Return it with three digits, which is more than a prediction is good for."""
        return RunTime(tuple(float(f"{seconds:.3g}") for seconds in self.quantiles), self.like)


class Scaling(NamedTuple):
    """How a job was measured to scale.

    Attributes:
        parallel: the part of a step that devices share among themselves.
        changes: number of resizes it was measured by.
    """

    parallel: float
    changes: int


class SizeChange(NamedTuple):
    """The last resize of a running job.

    Attributes:
        before_s: when the job got its size before the resize, in seconds since 1970.
        before: devices it had then.
        changed_s: when it was resized.
        after: devices it has since.
    """

    job: Job
    before_s: float
    before: int
    changed_s: float
    after: int


def ran_us(job: Job) -> float:
    """Return how long an ended job ran, without waits between attempts or lost attempts."""
    if job.preemptions:
        spec = job.spec
        return job.service_us / (spec.gpus * spec.milli / MILLI_PER_DEVICE or spec.cpus)
    return job.end_us - (job.started_us or job.first_start_us)


def program_of(argv: Sequence[str]) -> str:
    """Name the program that a command runs: of `python -m train --lr 1` it is `train`."""
    if not argv:
        return ""
    name = PurePath(argv[0]).name
    if not name.lower().startswith(INTERPRETERS):
        return name
    for argument in argv[1:]:
        if not argument.startswith("-") and not argument.replace(".", "").isdigit():
            return PurePath(argument).name
    return name


def kind_of(spec: JobSpec) -> str:
    """Name the kind of a job, to tell one owner's kinds apart: its name and its program."""
    program = program_of(spec.argv)
    return f"{spec.name} {program}" if spec.name and spec.name != program else program


def scaling_of(job: Job) -> Scaling | None:
    """Return how a job was measured to scale; None if it never was."""
    measured = job.values.get(SCALING)
    return Scaling(float(measured[0]), int(measured[1])) if measured else None


def steps_per_s(steps: Steps, since_s: float, until_s: float) -> float | None:
    """Return the speed within a span; None if too little was reported."""
    times, numbers = steps
    low, high = bisect_left(times, since_s), bisect_left(times, until_s) - 1
    if high <= low or times[high] - times[low] < SHORTEST_SPEED_SPAN_S:
        return None
    if numbers[high] < numbers[low]:
        return None
    return (numbers[high] - numbers[low]) / (times[high] - times[low])
