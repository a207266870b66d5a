"""Recent submissions, from which roll-outs draw future arrivals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from flyball.control.decide.job_columns import JobColumns
from flyball.control.jobs.request import Demand
from flyball.core.job_facts import ran_us
from flyball.core.jobs import Job, JobState
from flyball.core.results import Floats
from flyball.core.units import S_PER_HOUR, US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.twin.lookahead import FutureArrivals, draw_arrivals, draw_scores, even_scores

KEPT = 2000
"""Maximum number of submissions kept."""
LEAST, LEAST_US = 20, to_us(S_PER_HOUR)
"""Minimum number of submissions, and time they span, to draw arrivals from."""
VARIANTS = 8
"""Number of equally likely run times per job whose run time is not known."""
MIDDLES: Floats = ndtri((np.arange(VARIANTS) + 0.5) / VARIANTS)
"""Normal score in the middle of each of the equally likely intervals."""


class Owners:
    """Draws normal scores for roll-outs: jobs of one owner run long, or short, together.

    Args:
        count: number of roll-outs.
        seed: seed of all draws.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._of: dict[str, Floats] = {}

    def of(self, owner: str) -> Floats:
        """Return the scores of an owner, one per roll-out."""
        if owner not in self._of:
            rng = np.random.default_rng([self.seed, 1, *owner.encode()])
            self._of[owner] = even_scores(self.count, 1, rng)[:, 0]
        return self._of[owner]

    def scores(self, owner: str, job_id: int) -> Floats:
        """Return the scores of one job, one per roll-out."""
        rng = np.random.default_rng([self.seed, 2, job_id])
        drawn = draw_scores(np.zeros(1, np.int64), self.of(owner)[:, None], rng)
        return np.asarray(drawn[:, 0], np.float64)


class Recent:
    """Holds the latest submissions in their current state. Safe from any thread."""

    def __init__(self, demand: Demand, jobs: Iterable[Job] = ()) -> None:
        self._demand = demand
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._last = 0
        self.take({job.id: job for job in jobs})

    def take(self, changes: Mapping[int, Job]) -> None:
        """Take in changed jobs."""
        with self._lock:
            for job in sorted(changes.values(), key=lambda job: job.id):
                if job.id in self._jobs or job.id > self._last:  # otherwise it is too old
                    self._jobs[job.id] = job
                    self._last = max(self._last, job.id)
            while len(self._jobs) > KEPT:
                del self._jobs[next(iter(self._jobs))]

    def known(self, now_us: int) -> bool:
        """Whether there are enough submissions over enough time to draw arrivals from."""
        with self._lock:
            first_us = min((job.submit_us for job in self._jobs.values()), default=now_us)
            return len(self._jobs) >= LEAST and now_us - first_us >= LEAST_US

    def coming(
        self,
        now_us: int,
        horizon_us: int,
        owners: Owners,
        guess: Callable[[Job, Floats], Floats],
    ) -> tuple[Workload, list[FutureArrivals]]:
        """Return the workload to draw from, and drawn arrivals for each roll-out.

        Args:
            owners: scores of the roll-outs.
            guess: returns possible run times, in seconds, of a job that has not ended.
        """
        with self._lock:
            submitted = {job.id: job for job in self._jobs.values() if job.submit_us <= now_us}
        columns = JobColumns(self._demand, spreads=True)
        columns.update({job.id: _as_new(job) for job in submitted.values()})
        view, ids = columns.view({}, set())
        jobs = [submitted[job_id] for job_id in ids.tolist()]
        run_us = np.array([_run_times(job, guess) for job in jobs]) * US_PER_S
        names = [owner_of(job) for job in jobs]
        owner_at = {name: at for at, name in enumerate(dict.fromkeys(names))}
        owner = np.array([owner_at[name] for name in names])
        of_owner = np.stack([owners.of(name) for name in owner_at], axis=1)
        rng = np.random.default_rng([owners.seed, 3])
        coming = []
        for at in range(owners.count):
            picks, times = draw_arrivals(view.workload.submit_us, now_us, horizon_us, rng)
            scores = draw_scores(owner[picks], of_owner[at : at + 1], rng)[0]
            variant = np.minimum((ndtr(scores) * VARIANTS).astype(np.int64), VARIANTS - 1)
            coming.append(FutureArrivals(picks, times, run_us[picks, variant]))
        return view.workload, coming


def owner_of(job: Job) -> str:
    """Return whose jobs are taken to be alike: the user, else the tenant."""
    return job.spec.user or job.spec.tenant


def _as_new(job: Job) -> Job:
    """Return the job as if just submitted, without dependencies."""
    spec = replace(job.spec, after=(), array=0, array_limit=0)
    return Job(job.id, spec, job.submit_us, values=job.values)


def _run_times(job: Job, guess: Callable[[Job, Floats], Floats]) -> Floats:
    if job.state in (JobState.COMPLETED, JobState.FAILED) and job.first_start_us:
        return np.full(VARIANTS, max(1e-3, ran_us(job) / US_PER_S))
    if job.state.final:  # it was stopped: its full run time is not known
        job = replace(job, state=JobState.PENDING)
    return np.sort(guess(job, MIDDLES))
