"""Forecasts when jobs start, by roll-outs of the twin, and what would change that.

Run times come from the predictor where it knows the owner's jobs, from reported steps of running
jobs, else from the groups of `durations`. Future arrivals are drawn from recent ones. The result
is corrected by the errors of earlier forecasts (`start_bands`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from flyball.control.ask.durations import Durations, Guess, Trust
from flyball.control.ask.recent_arrivals import Owners, Recent, owner_of
from flyball.control.ask.reported_steps import Steps
from flyball.control.ask.start_bands import Corrects, Edges, StartBands
from flyball.control.decide.decider import Decider
from flyball.control.jobs.live_state import PREDICTION, LiveState
from flyball.core.events import CancelRequested, Event, Predicted, Submitted
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.predict.runtime.remaining import remaining
from flyball.predict.runtime.trees import LEVELS
from flyball.twin.lookahead import FutureArrivals, horizon_us, start_times
from flyball.twin.tables.spread import run_times

ROLLOUTS = 24
FULL_ROLLOUTS_JOBS = 5_000
"""Number of active jobs above which fewer roll-outs are made."""
SCOUTS = 4
"""Roll-outs without arrivals, which find the horizon up to which arrivals matter."""
SPREAD_SCORES: Floats = ndtri((np.arange(200) + 0.5) / 200)
"""Evenly spread normal scores from which quantiles are taken."""
NOT_COMING = "jobs that are still to come are not in it: too few came so far to know what may"
COMING = "jobs that are still to come are drawn from those of the past"


@dataclass(frozen=True)
class StartTime:
    """Seconds from now until a job starts: half of such jobs start before `p50_s`."""

    p50_s: float
    p90_s: float
    method: str


@dataclass(frozen=True)
class Rolled:
    """The result of roll-outs before correction: edges by job, and the source of its run time."""

    raw: Mapping[int, Edges]
    methods: Mapping[int, str]


class StartForecaster:
    """Forecasts starts of pending jobs, of jobs not submitted yet, and of jobs that ask for less.

    Attributes:
        bands: corrects the roll-outs.
        ask: returns the predicted run time of a job that is not submitted, (like jobs,
            *quantiles), or None.
        steps: returns the steps that a running job reported; None if it reported none.
        slowdown: returns how much slower jobs run now because of other work on the machine.
    """

    def __init__(
        self,
        live_state: LiveState,
        decider: Decider,
        durations: Durations,
        recent: Recent | None = None,
    ) -> None:
        self._live_state, self._decider, self._durations = live_state, decider, durations
        self._recent = recent
        self.bands: Corrects = StartBands()
        self.ask: Callable[[JobSpec, int], Sequence[float] | None] = lambda spec, now_us: None
        self.steps: Callable[[Job], Steps | None] = lambda job: None
        self._trust: dict[str, Trust] = {}
        self.slowdown: Callable[[], float] = lambda: 1.0

    def starts(self, now_us: int) -> dict[int, StartTime]:
        """Return the start time of every active job."""
        return self._corrected(self.roll_out((), now_us))

    def note(self, now_us: int) -> str:
        """Return whether future arrivals are taken into account, as a sentence."""
        enough = self._recent is not None and self._recent.known(now_us)
        return COMING if enough else NOT_COMING

    def if_submitted(self, spec: JobSpec, now_us: int) -> StartTime | None:
        """Return the start time of a job submitted now; None if it would never start."""
        job_id, events = self._hypothetical(spec, now_us, self.ask(spec, now_us))
        return self._corrected(self.roll_out(events, now_us)).get(job_id)

    def if_changed(self, job: Job, changes: Mapping[str, Any], now_us: int) -> StartTime | None:
        """Return the start time of a pending job if its request were changed."""
        spec = replace(job.spec, **changes)
        gone = CancelRequested(now_us, job.id)
        prediction = job.values.get(PREDICTION)
        job_id, events = self._hypothetical(spec, job.submit_us, prediction)
        return self._corrected(self.roll_out((gone, *events), now_us)).get(job_id)

    def _hypothetical(
        self, spec: JobSpec, submit_us: int, prediction: Sequence[float] | None
    ) -> tuple[int, tuple[Event, ...]]:
        """Return the number and the events of a job that exists only in this forecast."""
        with self._live_state.lock:
            job_id = max(self._live_state.ended.last, *self._live_state.jobs, 0) + 1
        submitted = Submitted(submit_us, job_id, spec.as_dict())
        if prediction is None:
            return job_id, (submitted,)
        return job_id, (submitted, Predicted(submit_us, [[job_id, *prediction]]))

    def _corrected(self, rolled: Rolled) -> dict[int, StartTime]:
        starts = {}
        for job_id, raw in rolled.raw.items():
            edges = self.bands.correct(raw)
            starts[job_id] = StartTime(*edges, rolled.methods[job_id])
        return starts

    def roll_out(self, hypothetical: Sequence[Event], now_us: int) -> Rolled:
        """Roll out every active job, and those of hypothetical events."""
        with self._live_state.lock:
            changes = self._live_state.fold(hypothetical)
            view, ids = self._decider.view_with(changes)
            jobs = {**self._live_state.jobs, **changes}
        if not len(ids):
            return Rolled({}, {})
        cluster, knobs = self._decider.cluster, self._decider.knobs
        count = max(4, min(ROLLOUTS, ROLLOUTS * FULL_ROLLOUTS_JOBS // len(ids)))
        owners = Owners(count, now_us)
        self._judge_estimates(list(jobs.values()), now_us)
        draws, methods = np.empty((count, len(ids))), {}
        for at, job_id in enumerate(ids.tolist()):
            job = jobs[job_id]
            guess = self._guess(job, now_us, owners.scores(owner_of(job), job_id))
            draws[:, at], methods[job_id] = guess.seconds * US_PER_S, guess.method
        work, coming = None, list[FutureArrivals]()
        if self._recent is not None and self._recent.known(now_us):
            scouts = start_times(cluster, view, knobs, now_us, draws[:SCOUTS])
            ahead_us = horizon_us(scouts)

            def run_s(job: Job, scores: Floats) -> Floats:
                return self._guess(job, now_us, scores).seconds

            work, coming = self._recent.coming(now_us, ahead_us, owners, run_s)
        starts = start_times(cluster, view, knobs, now_us, draws, work, coming)
        raw = {}
        for at, job_id in enumerate(ids.tolist()):
            started = starts[:, at][~np.isnan(starts[:, at])]
            if len(started):
                raw[job_id] = Edges(*np.percentile(started, [50, 90]).tolist())
        return Rolled(raw, methods)

    def _judge_estimates(self, jobs: Sequence[Job], now_us: int) -> None:
        """Update how far each owner's estimates are off, running jobs included."""
        running = [job for job in jobs if job.state != JobState.PENDING]
        slowdown = self.slowdown()
        ratios: dict[str, list[float]] = {job.spec.user: [] for job in jobs}
        for job in running:
            ratio = self._running_ratio(job, now_us)
            if ratio is not None:
                ratios[job.spec.user].append(ratio)
        self._trust = {
            user: self._durations.trust(user, logs, slowdown) for user, logs in ratios.items()
        }

    def _running_ratio(self, job: Job, now_us: int) -> float | None:
        """Return the log ratio of a running job's run time, by its steps so far, to its estimate.

        A job without steps that outlived its estimate counts with the time it has run.
        """
        elapsed_s = _elapsed_s(job, now_us)
        estimate_s = job.spec.estimate_s
        if not estimate_s or not elapsed_s:
            return None
        reported = self.steps(job)
        if reported is not None:
            run_s = estimate_s * np.exp(np.linspace(-1.0, 1.0, len(LEVELS)))
            left = remaining(run_s, elapsed_s, *reported)
            if "steps" in left.basis:
                return math.log((elapsed_s + left.seconds[len(LEVELS) // 2]) / estimate_s)
        return math.log(elapsed_s / estimate_s) if elapsed_s > estimate_s else None

    def _guess(self, job: Job, now_us: int, scores: Floats) -> Guess:
        """Return possible run times of a job's current or next attempt, at these normal scores."""
        elapsed_s = _elapsed_s(job, now_us)
        reported = self.steps(job) if elapsed_s else None
        prediction = job.values.get(PREDICTION)
        trust = self._trust.get(job.spec.user)
        if prediction is None and reported is None:
            return self._durations.guess(job.spec, elapsed_s, scores, trust)
        if prediction is None:
            plain = self._durations.guess(job.spec, elapsed_s, SPREAD_SCORES, trust)
            like, run_s = 0, np.quantile(plain.seconds, LEVELS)
        else:
            like, run_s = int(prediction[0]), np.array(prediction[1:], np.float64)
        left = remaining(run_s, elapsed_s, *(reported or ((), 0.0)))
        seconds = elapsed_s + run_times(left.seconds[None], LEVELS, scores[:, None])[:, 0]
        if job.spec.limit_s:
            seconds = np.minimum(seconds, job.spec.limit_s)
        similar = f"{like} job{'s' * (like != 1)} of the same owner and name"
        whose = similar if like else "jobs of other owners"
        method = left.basis if "steps" in left.basis else f"run time predicted from {whose}"
        return Guess(seconds, method)


def _elapsed_s(job: Job, now_us: int) -> float:
    if job.state == JobState.PENDING:
        return 0.0
    return max(0.0, (now_us - (job.started_us or job.since_us)) / US_PER_S)
