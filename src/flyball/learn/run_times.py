"""Learns run times on line from the journal's jobs, and keeps the score of its predictions.

    predictions = learner.observe(changes)        changed jobs in; predictions of new jobs out

Only jobs that ended by themselves teach: a job that was stopped (cancelled, over its limit, lost)
only shows that it ran for at least so long. The same class runs in the worker process and, in tests
on a virtual clock, inside the control plane.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyball.core.job_facts import ENOUGH_ENDED, RunTime, kind_of, ran_us
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.predict.runtime.estimator import RunTimes
from flyball.predict.runtime.rows import SHORTEST_S
from flyball.predict.runtime.trees import LEAST_ROWS, MIDDLE

SCORES_KEPT = 1000
"""Number of latest ends that the scores are computed over."""
FIRST_FIT, GROWTH = LEAST_ROWS, 1.25
"""Ended jobs needed for the first trees, and the growth of that number that triggers a refit."""
MAX_ENDS_BETWEEN_FITS = 5_000
"""A refit is due after this many ends, however long the history."""
TEACHING_STATES = (JobState.COMPLETED, JobState.FAILED)


class Score(NamedTuple):
    """The error of one prediction, and whether the run time was within its band."""

    log_error: float
    inside: bool


def row_of(spec: JobSpec, submit_us: int) -> dict[str, object]:
    """Return a job as the estimator takes it; cores stand in where no GPU is requested."""
    return {
        "submit_s": submit_us / US_PER_S,
        "tenant": spec.tenant,
        "user": spec.user,
        "name": kind_of(spec),
        "kind": spec.kind,
        "devices": spec.gpus or spec.cpus,
        "limit_s": spec.limit_s,
    }


def refit_due(run_times: RunTimes, fitted_at: int) -> bool:
    """Whether enough jobs ended to grow new trees, since there were `fitted_at` of them."""
    new = run_times.learnt - fitted_at
    if not run_times.trees.models:
        return run_times.learnt >= FIRST_FIT and new > 0
    return new >= min(MAX_ENDS_BETWEEN_FITS, max(100, (GROWTH - 1.0) * fitted_at))


class RunTimeLearner:
    """Follows jobs, predicts new ones and learns from those that end.

    Attributes:
        run_times: the estimator.
        note: why a stored model is not used; empty if it is.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """
        Args:
            folder: holds the stored model, if there is one; an unreadable model is ignored.
        """
        self.run_times = RunTimes()
        self.note = ""
        if folder is not None and folder.is_dir():
            try:
                self.run_times = RunTimes.load(folder)
            except Exception as error:  # a damaged card or tree file, of whatever kind
                self.note = f"the stored model is not used: {error}"
        self._open: dict[int, RunTime] = {}
        self._running: set[int] = set()
        self._scores: deque[Score] = deque(maxlen=SCORES_KEPT)
        self._fitted_at = self.run_times.learnt

    # Observing ---------------------------------------------------------------------------

    def begin(self, jobs: Iterable[Job]) -> None:
        """Learn from earlier jobs, in any state, in order of submission."""
        happened: list[tuple[int, int, Job]] = []
        for job in jobs:
            happened.append((job.submit_us, 0, job))
            if job.first_start_us:
                happened.append((job.started_us or job.first_start_us, 1, job))
            if job.state.final:
                happened.append((job.end_us, 2, job))
        for _when, step, job in sorted(happened, key=lambda event: event[:2]):
            if step == 0:
                self._submitted(job, {})
            elif step == 1:
                self._started(job)
            else:
                self._ended(job)

    def observe(self, changes: Mapping[int, Job]) -> dict[int, RunTime]:
        """Learn from changed jobs; return predictions of new jobs that are worth recording."""
        predictions: dict[int, RunTime] = {}
        alike: dict[tuple[Any, ...], int] = {}
        for job in sorted(changes.values(), key=lambda changed: changed.id):
            if job.id not in self._open and not job.state.final:
                prediction = self._submitted(job, alike)
                if self._worth_recording(job.spec, prediction):
                    predictions[job.id] = prediction.rounded()
            if job.started_us:
                self._started(job)
            if job.state.final:
                self._ended(job)
        return predictions

    def _submitted(self, job: Job, alike: dict[tuple[Any, ...], int]) -> RunTime:
        row = row_of(job.spec, job.submit_us)
        key = (*list(row.values())[1:],)
        if (other := alike.get(key)) is not None:
            quantiles = self.run_times.came_with(other, job.id, job.submit_us / US_PER_S)
        else:
            alike[key] = job.id
            quantiles = self.run_times.submitted(job.id, row)
        prediction = RunTime(tuple(quantiles.tolist()), self.run_times.like(row))
        self._open[job.id] = prediction
        return prediction

    def _worth_recording(self, spec: JobSpec, prediction: RunTime) -> bool:
        """Return whether it is better than what the owner states, if anything."""
        unstated = not (spec.estimate_s or spec.limit_s)
        enough = prediction.like >= ENOUGH_ENDED
        return enough or (unstated and self.run_times.learnt >= ENOUGH_ENDED)

    def _started(self, job: Job) -> None:
        if job.id in self._open and job.id not in self._running:
            self._running.add(job.id)
            self.run_times.started(job.id, job.started_us / US_PER_S)

    def _ended(self, job: Job) -> None:
        prediction = self._open.pop(job.id, None)
        self._running.discard(job.id)
        if prediction is None:
            return
        if job.state not in TEACHING_STATES or not job.first_start_us:
            self.run_times.cancelled(job.id)
            return
        run_s = max(SHORTEST_S, ran_us(job) / US_PER_S)
        self.run_times.ended(job.id, run_s, job.end_us / US_PER_S)
        if prediction.like:
            low, high = prediction.quantiles[0], prediction.quantiles[-1]
            error = abs(math.log(run_s / max(SHORTEST_S, prediction.quantiles[MIDDLE])))
            self._scores.append(Score(error, low <= run_s <= high))

    # Answering ---------------------------------------------------------------------------

    def predict(self, spec: JobSpec, now_us: int) -> RunTime:
        """Predict the run time of a job that might be submitted now, without learning from it."""
        row = row_of(spec, now_us)
        quantiles = self.run_times.predict([row])[0]
        return RunTime(tuple(quantiles.tolist()), self.run_times.like(row)).rounded()

    @property
    def fit_due(self) -> bool:
        """Whether enough jobs ended since the last fit to grow new trees."""
        return refit_due(self.run_times, self._fitted_at)

    def training_rows(self, now_us: int) -> tuple[Floats, Floats, Floats]:
        """Return what new trees are grown from; call it once per fit."""
        self._fitted_at = self.run_times.learnt
        return self.run_times.training(now_us / US_PER_S)

    def status(self) -> dict[str, Any]:
        """Return how good the predictions of jobs that ended were."""
        errors = np.array([score.log_error for score in self._scores])
        inside = [score.inside for score in self._scores]
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
