"""Guesses how long a job runs: as jobs of its kind did, else as its owner states.

A kind is one owner's jobs of one name, one program and one size. Run times of other kinds predict
little: a job of a known owner but a new kind gets its stated estimate, corrected by how far that
owner's estimates were off, by the progress of the owner's running jobs, and by how busy the machine
is with other work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from flyball.core.job_facts import ENOUGH_ENDED, kind_of, ran_us
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.units import S_PER_HOUR, US_PER_S

RUNS_PER_GROUP = 200
"""Number of latest run times kept per group."""
MAX_GROUPS = 20_000
"""Maximum number of groups kept, since names with a date in them make a group per job."""
SIGMA = 0.5
"""Spread of log run times around a stated estimate, before any of the owner's jobs has ended."""
PRIOR_JOBS = 1.0
"""Weight of the prior mean of an owner's errors, in jobs."""
PRIOR_SPREAD_JOBS = 2.0
"""Weight of the prior spread, in jobs."""
LATEST_RATIOS = 20
"""Number of an owner's latest estimate errors that count."""

Floats = npt.NDArray[np.float64]
Key = tuple[str, ...]


class Guess(NamedTuple):
    """Possible run times of a job, and where they come from."""

    seconds: Floats
    method: str


class Trust(NamedTuple):
    """Distribution of log(run time / stated estimate): its mean, its spread, jobs it rests on."""

    mean: float
    sigma: float
    jobs: int


class Durations:
    """Run times of ended jobs by kind and owner, and how far owners' estimates were off."""

    def __init__(self, ended: Iterable[Job] = ()) -> None:
        self._seconds: dict[Key, list[float]] = {}
        self._ratios: dict[str, list[float]] = {}
        for job in reversed(list(ended)):
            self.learn(job)

    def learn(self, job: Job) -> None:
        """Learn from a job that has ended; one that was stopped or never ran teaches nothing."""
        if job.state not in (JobState.COMPLETED, JobState.FAILED) or not job.first_start_us:
            return
        run_s = max(1e-3, ran_us(job) / US_PER_S)
        for group in _groups(job.spec):
            seconds = self._seconds.pop(group, [])
            self._seconds[group] = [*seconds[1 - RUNS_PER_GROUP :], run_s]
        if job.state == JobState.COMPLETED and job.spec.estimate_s:
            ratios = self._ratios.pop(job.spec.user, [])
            ratio = math.log(run_s / job.spec.estimate_s)
            self._ratios[job.spec.user] = [*ratios[1 - LATEST_RATIOS :], ratio]
        _forget_oldest(self._seconds)
        _forget_oldest(self._ratios)

    def trust(self, user: str, running: Sequence[float] = (), slowdown: float = 1.0) -> Trust:
        """Judge an owner's estimates.

        Args:
            running: log ratios of the owner's running jobs, projected from their steps.
            slowdown: how much slower jobs run because of other work on the machine.
        """
        ratios = [*self._ratios.get(user, ()), *running][-LATEST_RATIOS:]
        weight = PRIOR_JOBS + len(ratios)
        mean = (PRIOR_JOBS * math.log(slowdown) + sum(ratios)) / weight
        squares = sum((ratio - mean) ** 2 for ratio in ratios)
        spread_weight = PRIOR_SPREAD_JOBS + len(ratios)
        variance = (PRIOR_SPREAD_JOBS * SIGMA**2 + squares) / spread_weight
        return Trust(mean, math.sqrt(variance * (1.0 + 1.0 / weight)), len(ratios))

    def guess(
        self, spec: JobSpec, elapsed_s: float, scores: Floats, trust: Trust | None = None
    ) -> Guess:
        """Return possible run times at these normal scores; of a running job, those still possible.

        Args:
            trust: how far the owner's estimates are off; None = by ended jobs alone.
        """
        of_kind = self._of_kind(spec, elapsed_s, scores)
        if of_kind is not None:
            return of_kind
        stated_s = spec.estimate_s or spec.limit_s
        method = "the stated estimate" if spec.estimate_s else "the stated limit"
        if not stated_s:
            stated_s, method = S_PER_HOUR, "no estimate: an hour"
        mean, sigma = 0.0, SIGMA
        if spec.estimate_s:
            judged = trust or self.trust(spec.user)
            mean, sigma = judged.mean, judged.sigma
            if judged.jobs:
                method += f", corrected by {judged.jobs} job{'s' * (judged.jobs != 1)} of the owner"
        seconds = stated_s * np.exp(mean + sigma * scores)
        if elapsed_s:  # what is left of a job that outlives its estimate is as long again
            seconds = np.maximum(seconds, elapsed_s * (1.0 - np.log1p(-ndtr(scores))))
        return Guess(_within(seconds, spec), method)

    def _of_kind(self, spec: JobSpec, elapsed_s: float, scores: Floats) -> Guess | None:
        """Return run times of the nearest group that has enough of them."""
        kind, owner = _groups(spec)
        groups = [(kind, "owner and name")]
        if not spec.estimate_s:  # other kinds of jobs, where the owner says nothing better
            groups.append((owner, "owner"))
        for group, what in groups:
            run_s = np.sort(np.array(self._seconds.get(group, ())))
            possible = run_s[run_s > elapsed_s]
            if len(run_s) >= ENOUGH_ENDED and len(possible):
                place = (ndtr(scores) * len(possible)).astype(np.int64)
                seconds = possible[np.minimum(place, len(possible) - 1)]
                method = f"run times of {len(run_s)} jobs of the same {what}"
                return Guess(_within(seconds, spec), method)
        return None


def _forget_oldest(groups: dict[Any, list[float]]) -> None:
    """Drop the least recently used groups."""
    while len(groups) > MAX_GROUPS:
        del groups[next(iter(groups))]


def _within(seconds: Floats, spec: JobSpec) -> Floats:
    return np.minimum(seconds, spec.limit_s) if spec.limit_s else seconds


def _groups(spec: JobSpec) -> tuple[Key, Key]:
    """Return the keys of a job's kind and of all its owner's jobs."""
    return (spec.user, kind_of(spec), str(spec.cpus), str(spec.gpus)), (spec.user, "*")
