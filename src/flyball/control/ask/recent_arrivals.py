"""What came lately: from it roll-outs draw what may come next."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from scipy.special import ndtr, ndtri

from flyball.control.decide.job_columns import Table
from flyball.control.jobs.request import Demand
from flyball.core.job_facts import ran_us
from flyball.core.jobs import Job, JobState
from flyball.core.results import Floats
from flyball.core.units import S_PER_HOUR, US_PER_S, to_us
from flyball.core.workload import Workload
from flyball.twin.lookahead import Coming, draw_arrivals, draw_scores, even_scores

KEPT = 2000
"""Latest submissions."""
LEAST, LEAST_US = 20, to_us(S_PER_HOUR)
"""Submissions, and the time they span, from which it is known what usually comes."""
VARIANTS = 8
"""Possible run times of each job whose own is not known, all as likely."""
MIDDLES: Floats = ndtri((np.arange(VARIANTS) + 0.5) / VARIANTS)


class Owners:
    """Normal scores of roll-outs: jobs of one owner run long, or short, together.

    Args:
        count: roll-outs.
        seed: of all that is drawn.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self._of: dict[str, Floats] = {}

    def of(self, owner: str) -> Floats:
        """One score a roll-out."""
        if owner not in self._of:
            rng = np.random.default_rng([self.seed, 1, *owner.encode()])
            self._of[owner] = even_scores(self.count, 1, rng)[:, 0]
        return self._of[owner]

    def scores(self, owner: str, job_id: int) -> Floats:
        """Of one job."""
        rng = np.random.default_rng([self.seed, 2, job_id])
        made = draw_scores(np.zeros(1, np.int64), self.of(owner)[:, None], rng)
        return np.asarray(made[:, 0], np.float64)


class Recent:
    """The latest submissions, as they are now. Safe from any thread."""

    def __init__(self, demand: Demand, jobs: Iterable[Job] = ()) -> None:
        self._demand = demand
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._last = 0
        self.take({job.id: job for job in jobs})

    def take(self, changes: Mapping[int, Job]) -> None:
        """What has become of jobs."""
        with self._lock:
            for job in sorted(changes.values(), key=lambda each: each.id):
                if job.id in self._jobs or job.id > self._last:  # else it is too long ago
                    self._jobs[job.id] = job
                    self._last = max(self._last, job.id)
            while len(self._jobs) > KEPT:
                del self._jobs[next(iter(self._jobs))]

    def known(self, now_us: int) -> bool:
        """Whether enough came for long enough to know what usually comes."""
        with self._lock:
            first_us = min((job.submit_us for job in self._jobs.values()), default=now_us)
            return len(self._jobs) >= LEAST and now_us - first_us >= LEAST_US

    def coming(
        self,
        now_us: int,
        horizon_us: int,
        owners: Owners,
        guess: Callable[[Job, Floats], Floats],
    ) -> tuple[Workload, list[Coming]]:
        """What to draw from, and what may come, once for each roll-out.

        Args:
            owners: scores of the roll-outs.
            guess: possible run times, in seconds, of a job whose own is not known yet.
        """
        with self._lock:
            known = {job.id: job for job in self._jobs.values() if job.submit_us <= now_us}
        table = Table(self._demand)
        table.update({job.id: _as_new(job) for job in known.values()})
        view, ids = table.view({}, set())
        jobs = [known[each] for each in ids.tolist()]
        run_us = np.array([_run_times(job, guess) for job in jobs]) * US_PER_S
        names = [owner_of(job) for job in jobs]
        columns = {name: at for at, name in enumerate(dict.fromkeys(names))}
        owner = np.array([columns[name] for name in names])
        of_owner = np.stack([owners.of(name) for name in columns], axis=1)
        rng = np.random.default_rng([owners.seed, 3])
        coming = []
        for at in range(owners.count):
            picks, times = draw_arrivals(view.workload.submit_us, now_us, horizon_us, rng)
            scores = draw_scores(owner[picks], of_owner[at : at + 1], rng)[0]
            variant = np.minimum((ndtr(scores) * VARIANTS).astype(np.int64), VARIANTS - 1)
            coming.append(Coming(picks, times, run_us[picks, variant]))
        return view.workload, coming


def owner_of(job: Job) -> str:
    """Whose jobs are alike: a user's, else a tenant's."""
    return job.spec.user or job.spec.tenant


def _as_new(job: Job) -> Job:
    """The same job as if it had just been submitted; it waits for nobody."""
    spec = replace(job.spec, after=(), array=0, array_limit=0)
    return Job(job.id, spec, job.submit_us, values=job.values)


def _run_times(job: Job, guess: Callable[[Job, Floats], Floats]) -> Floats:
    if job.state in (JobState.COMPLETED, JobState.FAILED) and job.first_start_us:
        return np.full(VARIANTS, max(1e-3, ran_us(job) / US_PER_S))
    if job.state.final:  # it was stopped: how long it would have run is not known
        job = replace(job, state=JobState.PENDING)
    return np.sort(guess(job, MIDDLES))
