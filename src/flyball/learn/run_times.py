"""Run times, learnt on line from the journal's jobs, and how good the guesses were.

    found = learner.take(changes)        what became of jobs; predictions of those that are new

Only jobs that ended by themselves teach: of one that was stopped (cancelled, over its limit, lost)
it is known only that it ran that long. The same learner runs beside the control plane in a worker
and inside it in tests on a virtual clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyball.control.ask.durations import ENOUGH, kind_of, ran_us
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.predict.runtime.estimator import RunTimes
from flyball.predict.runtime.rows import SHORTEST_S
from flyball.predict.runtime.trees import LEAST_ROWS, MIDDLE

KEPT = 1000
"""Latest ends that the figures are of."""
FIRST_FIT, GROWTH = LEAST_ROWS, 1.25
"""Trees are grown from so many ends on, and anew whenever there are a quarter more."""
MOST_BETWEEN = 5_000
"""Or after so many."""
TEACHING = (JobState.COMPLETED, JobState.FAILED)


class Prediction(NamedTuple):
    """Quantiles of a run time in seconds, and how many like jobs (owner, name) had ended."""

    quantiles: tuple[float, ...]
    like: int

    def short(self) -> Prediction:
        """With three digits, which is more than is known."""
        return Prediction(tuple(float(f"{each:.3g}") for each in self.quantiles), self.like)


class Score(NamedTuple):
    """How one prediction did."""

    log_error: float
    inside: bool


def row_of(spec: JobSpec, submit_us: int) -> dict[str, object]:
    """A job as the estimator sees it. Cores count where no devices are asked for."""
    return {
        "submit_s": submit_us / US_PER_S,
        "tenant": spec.tenant,
        "user": spec.user,
        "name": kind_of(spec),
        "kind": spec.kind,
        "devices": spec.gpus or spec.cpus,
        "limit_s": spec.limit_s,
    }


class Learner:
    """Follows jobs, predicts those that come, learns from those that end.

    Attributes:
        run_times: the estimator.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """
        Args:
            folder: where a model of an earlier time may be; one that cannot be read is passed over.
        """
        self.run_times = RunTimes()
        self.note = ""
        if folder is not None and folder.is_dir():
            try:
                self.run_times = RunTimes.load(folder)
            except Exception as error:  # a card or a tree file that is none, in any way
                self.note = f"the stored model is not used: {error}"
        self._open: dict[int, Prediction] = {}
        self._running: set[int] = set()
        self._scores: deque[Score] = deque(maxlen=KEPT)
        self._fitted_at = self.run_times.learnt

    # What happens ------------------------------------------------------------------------

    def begin(self, jobs: Iterable[Job]) -> None:
        """What happened before: jobs in any state, in order of submission."""
        told: list[tuple[int, int, Job]] = []
        for job in jobs:
            told.append((job.submit_us, 0, job))
            if job.first_start_us:
                told.append((job.started_us or job.first_start_us, 1, job))
            if job.state.final:
                told.append((job.end_us, 2, job))
        for _when, step, job in sorted(told, key=lambda each: each[:2]):
            if step == 0:
                self._come(job, {})
            elif step == 1:
                self._start(job)
            else:
                self._end(job)

    def take(self, changes: Mapping[int, Job]) -> dict[int, Prediction]:
        """What has become of jobs; the predictions of those that are new."""
        made: dict[int, Prediction] = {}
        alike: dict[tuple[Any, ...], int] = {}
        for job in sorted(changes.values(), key=lambda each: each.id):
            if job.id not in self._open and not job.state.final:
                found = self._come(job, alike)
                if self._worth_telling(job.spec, found):
                    made[job.id] = found.short()
            if job.started_us:
                self._start(job)
            if job.state.final:
                self._end(job)
        return made

    def _come(self, job: Job, alike: dict[tuple[Any, ...], int]) -> Prediction:
        row = row_of(job.spec, job.submit_us)
        key = (*list(row.values())[1:],)
        if (other := alike.get(key)) is not None:
            found = self.run_times.came_with(other, job.id, job.submit_us / US_PER_S)
        else:
            alike[key] = job.id
            found = self.run_times.submitted(job.id, row)
        made = Prediction(tuple(found.tolist()), self.run_times.like(row))
        self._open[job.id] = made
        return made

    def _worth_telling(self, spec: JobSpec, found: Prediction) -> bool:
        """Whether it says more than the owner: of strangers only where the owner is silent."""
        silent = not (spec.estimate_s or spec.limit_s)
        return found.like >= ENOUGH or (silent and self.run_times.learnt >= ENOUGH)

    def _start(self, job: Job) -> None:
        if job.id in self._open and job.id not in self._running:
            self._running.add(job.id)
            self.run_times.started(job.id, job.started_us / US_PER_S)

    def _end(self, job: Job) -> None:
        said = self._open.pop(job.id, None)
        self._running.discard(job.id)
        if said is None:
            return
        if job.state not in TEACHING or not job.first_start_us:
            self.run_times.cancelled(job.id)
            return
        run_s = max(SHORTEST_S, ran_us(job) / US_PER_S)
        self.run_times.ended(job.id, run_s, job.end_us / US_PER_S)
        if said.like:
            low, high = said.quantiles[0], said.quantiles[-1]
            error = abs(math.log(run_s / max(SHORTEST_S, said.quantiles[MIDDLE])))
            self._scores.append(Score(error, low <= run_s <= high))

    # Answers -----------------------------------------------------------------------------

    def predict(self, spec: JobSpec, now_us: int) -> Prediction:
        """Of a job that might be submitted now; learns nothing."""
        row = row_of(spec, now_us)
        found = self.run_times.predict([row])[0]
        return Prediction(tuple(found.tolist()), self.run_times.like(row)).short()

    @property
    def fit_due(self) -> bool:
        """Whether so much has been learnt that new trees are worth growing."""
        new = self.run_times.learnt - self._fitted_at
        if not self.run_times.trees.models:
            return self.run_times.learnt >= FIRST_FIT and new > 0
        return new >= min(MOST_BETWEEN, max(100, (GROWTH - 1.0) * self._fitted_at))

    def fitting(self, now_us: int) -> tuple[Floats, Floats, Floats]:
        """What new trees are to be grown from; asked once a fit."""
        self._fitted_at = self.run_times.learnt
        return self.run_times.training(now_us / US_PER_S)

    def status(self) -> dict[str, Any]:
        """How good the predictions of jobs that have ended were."""
        errors = np.array([each.log_error for each in self._scores])
        inside = [each.inside for each in self._scores]
        n = len(errors)
        return {
            "n": n,
            "learnt": self.run_times.learnt,
            "model": "trees and like jobs" if self.run_times.trees.models else "like jobs",
            "median_abs_log_error": float(np.median(errors)) if n else None,
            "within_2x": float(np.mean(errors <= math.log(2.0))) if n else None,
            "coverage_90": sum(inside) / n if n else None,
            "note": self.note,
        }
