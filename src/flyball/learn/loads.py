"""Forecasts the cluster's load: series of its own, extended as time passes.

| series | step | horizon |
|---|---|---|
| arrivals: jobs submitted in ten minutes | 10 min | 1 day |
| running: devices held by running jobs | 1 min | 1 h |
| pending: jobs that wait | 1 min | 1 h |
| utilisation: of the node's cores in percent, from the monitor | 1 min | 1 h |

The past is derived from the journal's jobs, so a restart loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.jobs import Job, JobSpec
from flyball.core.results import Floats
from flyball.core.units import S_PER_DAY, S_PER_HOUR, S_PER_MIN, US_PER_S
from flyball.learn.scalings import TelemetrySeries
from flyball.predict.load.ahead import LiveForecast
from flyball.predict.patterns import find_patterns
from flyball.predict.series import Series

FORECASTERS = ("last", "yesterday", "last-week", "smoothing", "linear")
"""Candidates: cheap enough for once a minute, and sound on a history of hours."""
REFIT_S = 6 * S_PER_HOUR
"""Longest time between two fits; a series that grew by half is refitted at once."""
MAX_POINTS = 7 * 1440
"""Number of latest values that are used."""
MIN_POINTS_TO_FIT = 60
LEVELS_SENT = (0.05, 0.5, 0.95)
MAX_STEPS_SENT = 12
"""Largest number of steps of a forecast in a message."""
UTILISATION_SERIES = "compute.total_percent"


@dataclass(frozen=True)
class SeriesKind:
    """Name, unit, step and horizon of a series."""

    name: str
    unit: str
    step_s: float
    ahead_s: float


ARRIVALS = SeriesKind("arrivals", "jobs in 10 min", 10 * S_PER_MIN, S_PER_DAY)
RUNNING = SeriesKind("running", "devices", S_PER_MIN, S_PER_HOUR)
PENDING = SeriesKind("pending", "jobs", S_PER_MIN, S_PER_HOUR)
UTILISATION = SeriesKind("utilisation", "percent", S_PER_MIN, S_PER_HOUR)


class LoadSeries:
    """Holds one series and its forecaster."""

    def __init__(self, kind: SeriesKind, start_s: float, values: Floats) -> None:
        self.kind = kind
        series = Series(kind.name, start_s, kind.step_s, values)
        self._ahead = LiveForecast(series, kind.ahead_s, FORECASTERS)
        self._fitted, self._fitted_s = 0, -math.inf

    @property
    def values(self) -> Floats:
        """The series so far."""
        return self._ahead.series.values

    @property
    def next_s(self) -> float:
        """When the step after the last value ends."""
        series = self._ahead.series
        return series.start_s + (len(series) + 1) * series.step_s

    def extend(self, values: Sequence[float]) -> None:
        """Append the values of the next steps."""
        for value in values:
            series = self._ahead.series
            self._ahead.observe(series.start_s + len(series) * series.step_s, value)

    def fit(self, now_s: float) -> bool:
        """Refit if it is due; return whether it was."""
        size = len(self._ahead.series)
        grown = size >= MIN_POINTS_TO_FIT and size >= 1.5 * self._fitted
        if not grown and not (self._fitted and now_s - self._fitted_s >= REFIT_S):
            return False
        self._ahead.fit(self._ahead.series.values[-MAX_POINTS:])
        self._fitted, self._fitted_s = size, now_s
        return True

    def forecast(self) -> dict[str, Any] | None:
        """Return the forecast as it is sent; None while there is no value."""
        series = self._ahead.series
        try:
            forecast = self._ahead.predict(self.kind.ahead_s)
        except BadInput:
            return None
        steps = len(forecast.mean)
        at = np.unique(np.rint(np.linspace(0, steps - 1, min(steps, MAX_STEPS_SENT))).astype(int))
        rows = [forecast.levels.index(level) for level in LEVELS_SENT]
        origin_s = series.start_s + len(series) * series.step_s
        return {
            "series": self.kind.name,
            "unit": self.kind.unit,
            "time": origin_s,
            "ahead_s": ((at + 1) * series.step_s).tolist(),
            "mean": forecast.mean[at].tolist(),
            **{
                f"p{round(100 * level):02d}": forecast.quantiles[row, at].tolist()
                for level, row in zip(LEVELS_SENT, rows, strict=True)
            },
        }

    def status(self) -> dict[str, Any]:
        """Return which forecaster is used at each lead, how good it has been, and the patterns."""
        series = self._ahead.series
        leads = [
            {
                "ahead_s": skill.lead_s,
                "model": skill.model,
                "rmae": skill.rmae,
                "naive": skill.naive,
                "coverage_90": skill.coverage / 100.0,
                "n": skill.n,
            }
            for skill in self._ahead.skill()
        ]
        patterns = find_patterns(series)
        return {
            "series": self.kind.name,
            "unit": self.kind.unit,
            "values": len(series),
            "leads": leads,
            "drift": patterns.sentences(series.step_s),
            "note": "" if leads else "too short to be fitted: the last value, with a wide band",
        }


class ClusterLoads:
    """Holds all series of one cluster.

    Args:
        devices_of: devices that a job holds while it runs.
        telemetry: the monitor's series; None if there is no monitor.
    """

    def __init__(
        self, devices_of: Callable[[JobSpec], float], telemetry: TelemetrySeries | None = None
    ) -> None:
        self._devices_of, self._telemetry = devices_of, telemetry
        self.series: list[LoadSeries] = []

    def begin(self, jobs: Iterable[Job], now_s: float) -> None:
        """Derive the past of every series from the jobs."""
        jobs = list(jobs)
        self.series = []
        for kind in (ARRIVALS, RUNNING, PENDING, *((UTILISATION,) if self._telemetry else ())):
            first_s = min((job.submit_us / US_PER_S for job in jobs), default=now_s)
            begin_s = max(first_s, now_s - MAX_POINTS * kind.step_s)
            start_s = begin_s // kind.step_s * kind.step_s
            count = int((now_s - start_s) // kind.step_s)
            self.series.append(LoadSeries(kind, start_s, self._values(kind, jobs, start_s, count)))

    @property
    def earliest_step_s(self) -> float:
        """Start of the earliest step that is not over: jobs that ended before it are not needed."""
        return min((series.next_s - series.kind.step_s for series in self.series), default=0)

    def extend(self, jobs: Iterable[Job], now_s: float) -> None:
        """Bring every series up to now.

        Args:
            jobs: all that were active at any time since the last call.
        """
        jobs = list(jobs)
        for series in self.series:
            if now_s >= series.next_s:
                start_s = series.next_s - series.kind.step_s
                count = int((now_s - start_s) // series.kind.step_s)
                series.extend(self._values(series.kind, jobs, start_s, count).tolist())

    def forecasts(self, now_s: float) -> list[dict[str, Any]]:
        """Return all forecasts, after a refit of at most one series."""
        for series in self.series:
            if series.fit(now_s):
                break  # one a minute: the others serve as well as before until then
        forecasts = (series.forecast() for series in self.series)
        return [forecast for forecast in forecasts if forecast]

    def status(self) -> list[dict[str, Any]]:
        """Return the status of every series."""
        return [series.status() for series in self.series]

    def _values(self, kind: SeriesKind, jobs: Sequence[Job], start_s: float, count: int) -> Floats:
        """Return the values of `count` steps, each taken at the end of its step."""
        if kind is UTILISATION:
            return self._utilisation(start_s, count)
        edges: Floats = start_s + kind.step_s * np.arange(count + 1, dtype=float)
        submit_s = np.array([job.submit_us for job in jobs]) / US_PER_S
        if kind is ARRIVALS:
            return np.histogram(submit_s, edges)[0].astype(float)
        start = np.array([job.first_start_us or _unstarted_us(job) for job in jobs]) / US_PER_S
        end = np.array([job.end_us if job.state.final else math.inf for job in jobs]) / US_PER_S
        if kind is PENDING:
            return _weight_at(submit_s, np.minimum(start, end), edges[1:], np.ones(len(jobs)))
        devices = np.array([self._devices_of(job.spec) for job in jobs])
        return _weight_at(start, end, edges[1:], devices)

    def _utilisation(self, start_s: float, count: int) -> Floats:
        """Return the measured mean of each step; NaN where nothing was measured."""
        assert self._telemetry is not None
        values = np.full(count, np.nan)
        if not count:
            return values
        span_s = (count + 2) * UTILISATION.step_s
        try:
            times_s, measured = self._telemetry(UTILISATION_SERIES, span_s)
        except (OSError, ValueError):
            return values
        slots = np.floor((times_s - start_s) / UTILISATION.step_s).astype(int)
        inside = (slots >= 0) & (slots < count)
        sums = np.bincount(slots[inside], measured[inside], count)
        counts = np.bincount(slots[inside], minlength=count)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _unstarted_us(job: Job) -> float:
    """Return a start for a job without one: never, or its end if it was cancelled."""
    return float(job.end_us) if job.state.final else math.inf


def _weight_at(begin: Floats, end: Floats, at: Floats, weight: Floats) -> Floats:
    """Return the total weight of what has begun and not ended, at each instant."""
    if not len(begin):
        return np.zeros(len(at))
    by_begin, by_end = np.argsort(begin), np.argsort(end)
    begun = np.append(0.0, np.cumsum(weight[by_begin]))
    ended = np.append(0.0, np.cumsum(weight[by_end]))
    there = begun[np.searchsorted(begin[by_begin], at, side="right")]
    return np.asarray(there - ended[np.searchsorted(end[by_end], at, side="right")], float)
