"""How long might a job run? What like jobs took, else what its owner said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S

ENOUGH = 3
"""Ended jobs from which a group is believed."""
KEPT = 200
"""Of each group, the latest."""
MOST_GROUPS = 20_000
"""Those that ended a job last; names with a date in them would make one for each job there was."""
SIGMA = 0.5
"""Spread (of the logarithm) of run times around what an owner stated: wide, because unchecked."""

Floats = npt.NDArray[np.float64]


class Guess(NamedTuple):
    """Possible run times of a job, and where they come from."""

    seconds: Floats
    method: str


class Durations:
    """Run times of ended jobs, by who ran what."""

    def __init__(self, ended: Iterable[Job] = ()) -> None:
        self._seconds: dict[tuple[str, ...], list[float]] = {}
        for job in reversed(list(ended)):
            self.learn(job)

    def learn(self, job: Job) -> None:
        """A job has ended; those that were stopped or never ran say nothing."""
        if job.state in (JobState.COMPLETED, JobState.FAILED) and job.first_start_us:
            run_s = max(1e-3, ran_us(job) / US_PER_S)
            for group in _groups(job.spec):
                kept = self._seconds.pop(group, [])
                self._seconds[group] = [*kept[1 - KEPT :], run_s]
            while len(self._seconds) > MOST_GROUPS:
                del self._seconds[next(iter(self._seconds))]

    def guess(self, spec: JobSpec, elapsed_s: float, count: int, seed: Sequence[int]) -> Guess:
        """So many possible run times; of a running job only such as it can still have."""
        rng = np.random.default_rng(list(seed))
        for group in _groups(spec)[:2]:
            known = np.array(self._seconds.get(group, ()))
            if len(known) >= ENOUGH:
                left = known[known > elapsed_s]
                method = f"run times of {len(known)} jobs of the same owner and name"
                if len(group) == 2:  # the wider group
                    method = f"run times of {len(known)} jobs of the same owner"
                if len(left):
                    return Guess(_within(rng.choice(left, count), spec), method)
        stated = spec.estimate_s or spec.limit_s
        method = "the stated estimate" if spec.estimate_s else "the stated limit"
        drawn = (stated or S_PER_HOUR) * np.exp(SIGMA * rng.standard_normal(count))
        if elapsed_s:  # what is left of a job that outlives its estimate is as long again
            drawn = np.maximum(drawn, elapsed_s * (1.0 + rng.exponential(1.0, count)))
        return Guess(_within(drawn, spec), method if stated else "no estimate: an hour")


def ran_us(job: Job) -> float:
    """How long it really ran: the waits between its attempts, and lost attempts, do not count."""
    if job.preemptions:
        spec = job.spec
        return job.service_us / (spec.gpus * spec.milli / MILLI_PER_DEVICE or spec.cpus)
    return job.end_us - (job.started_us or job.first_start_us)


def _within(seconds: Floats, spec: JobSpec) -> Floats:
    return np.minimum(seconds, spec.limit_s) if spec.limit_s else seconds


def _groups(spec: JobSpec) -> tuple[tuple[str, ...], ...]:
    """The groups a job belongs to, nearest first."""
    return (spec.user, spec.name, str(spec.cpus)), (spec.user, "*")
