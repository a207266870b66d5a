"""How loaded the cluster will be: its own series, forecast as they grow.

| series | step | ahead |
|---|---|---|
| arrivals: jobs submitted in ten minutes | 10 min | 1 day |
| running: devices in use | 1 min | 1 h |
| pending: jobs that wait | 1 min | 1 h |
| utilisation: use of the node's cores in percent, from the monitor | 1 min | 1 h |

The past is worked out from the journal's jobs, so a restart loses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.control.jobs.request import Demand
from flyball.core.errors import BadInput
from flyball.core.jobs import Job
from flyball.core.results import Floats
from flyball.core.units import MILLI_PER_DEVICE, S_PER_DAY, S_PER_HOUR, S_PER_MIN, US_PER_S
from flyball.predict.load.ahead import Ahead
from flyball.predict.patterns import find_patterns
from flyball.predict.series import Series

CHOSEN = ("last", "yesterday", "last-week", "smoothing", "linear")
"""Forecasters that are chosen from: a minute must be cheap, and a history of hours is short."""
REFIT_S = 6 * S_PER_HOUR
"""Forecasters are fitted anew this often, and whenever there is half as much again to see."""
MOST_POINTS = 7 * 1440
"""Of the past that is looked at."""
LEAST_FIT = 60
SHOWN = (0.05, 0.5, 0.95)
MOST_SHOWN = 12
"""Steps of a forecast that are told."""
UTILISATION = "compute.total_percent"


@dataclass(frozen=True)
class Kind:
    """What a series is."""

    name: str
    unit: str
    step_s: float
    ahead_s: float


ARRIVALS = Kind("arrivals", "jobs in 10 min", 10 * S_PER_MIN, S_PER_DAY)
RUNNING = Kind("running", "devices", S_PER_MIN, S_PER_HOUR)
PENDING = Kind("pending", "jobs", S_PER_MIN, S_PER_HOUR)
USE = Kind("utilisation", "percent", S_PER_MIN, S_PER_HOUR)

Measured = Callable[[str, float], tuple[Floats, Floats]]
"""Of a name and so many seconds: times and values, as `monitor.reader.Telemetry.series`."""


class Followed:
    """One series: its past, and what forecasts it."""

    def __init__(self, kind: Kind, start_s: float, values: Floats) -> None:
        self.kind = kind
        self._ahead = Ahead(Series(kind.name, start_s, kind.step_s, values), kind.ahead_s, CHOSEN)
        self._fitted, self._fitted_s = 0, -math.inf

    @property
    def next_s(self) -> float:
        """When the next step is over."""
        series = self._ahead.series
        return series.start_s + (len(series) + 1) * series.step_s

    def observe(self, values: Sequence[float]) -> None:
        """The values of the next steps."""
        for value in values:
            series = self._ahead.series
            self._ahead.observe(series.start_s + len(series) * series.step_s, value)

    def fit(self, now_s: float) -> bool:
        """Fit anew, if it is time; whether it was."""
        size = len(self._ahead.series)
        grown = size >= LEAST_FIT and size >= 1.5 * self._fitted
        if not grown and not (self._fitted and now_s - self._fitted_s >= REFIT_S):
            return False
        self._ahead.fit(self._ahead.series.values[-MOST_POINTS:])
        self._fitted, self._fitted_s = size, now_s
        return True

    def forecast(self) -> dict[str, Any] | None:
        """What is ahead; None while nothing is known."""
        series = self._ahead.series
        try:
            made = self._ahead.predict(self.kind.ahead_s)
        except BadInput:
            return None
        steps = len(made.mean)
        at = np.unique(np.rint(np.linspace(0, steps - 1, min(steps, MOST_SHOWN))).astype(int))
        rows = [made.levels.index(level) for level in SHOWN]
        origin_s = series.start_s + len(series) * series.step_s
        return {
            "series": self.kind.name,
            "unit": self.kind.unit,
            "time": origin_s,
            "ahead_s": ((at + 1) * series.step_s).tolist(),
            "mean": made.mean[at].tolist(),
            **{
                f"p{round(100 * level):02d}": made.quantiles[row, at].tolist()
                for level, row in zip(SHOWN, rows, strict=True)
            },
        }

    def status(self) -> dict[str, Any]:
        """Who speaks, how well, and what has changed."""
        series = self._ahead.series
        leads = [
            {
                "ahead_s": each.lead_s,
                "model": each.model,
                "rmae": each.rmae,
                "naive": each.naive,
                "coverage_90": each.coverage / 100.0,
                "n": each.n,
            }
            for each in self._ahead.skill()
        ]
        found = find_patterns(series)
        return {
            "series": self.kind.name,
            "unit": self.kind.unit,
            "values": len(series),
            "leads": leads,
            "drift": found.sentences(series.step_s),
            "note": "" if leads else "too short to be fitted: the last value, with a wide band",
        }


class Loads:
    """All series of one cluster."""

    def __init__(self, demand: Demand, measured: Measured | None = None) -> None:
        self._demand, self._measured = demand, measured
        self.followed: list[Followed] = []

    def begin(self, jobs: Iterable[Job], now_s: float) -> None:
        """Work out the past of every series from the jobs there were."""
        jobs = list(jobs)
        self.followed = []
        for kind in (ARRIVALS, RUNNING, PENDING, *((USE,) if self._measured else ())):
            first_s = min((job.submit_us / US_PER_S for job in jobs), default=now_s)
            begin_s = max(first_s, now_s - MOST_POINTS * kind.step_s)
            start_s = begin_s // kind.step_s * kind.step_s
            count = int((now_s - start_s) // kind.step_s)
            self.followed.append(Followed(kind, start_s, self._values(kind, jobs, start_s, count)))

    def tick(self, jobs: Iterable[Job], now_s: float) -> bool:
        """Bring every series up to now; whether any grew.

        Args:
            jobs: all that were active at any time since the last tick.
        """
        grew = False
        jobs = list(jobs)
        for each in self.followed:
            if now_s >= each.next_s:
                start_s = each.next_s - each.kind.step_s
                count = int((now_s - start_s) // each.kind.step_s)
                each.observe(self._values(each.kind, jobs, start_s, count).tolist())
                grew = True
        return grew

    def _values(self, kind: Kind, jobs: Sequence[Job], start_s: float, count: int) -> Floats:
        """The values of `count` steps, each at the end of its step."""
        if kind is USE:
            return self._use(start_s, count)
        edges: Floats = start_s + kind.step_s * np.arange(count + 1, dtype=float)
        submit_s = np.array([job.submit_us for job in jobs]) / US_PER_S
        if kind is ARRIVALS:
            return np.histogram(submit_s, edges)[0].astype(float)
        start = np.array([job.first_start_us or _never(job) for job in jobs]) / US_PER_S
        end = np.array([job.end_us if job.state.final else math.inf for job in jobs]) / US_PER_S
        if kind is PENDING:
            return _count(submit_s, np.minimum(start, end), edges[1:], np.ones(len(jobs)))
        devices = [self._demand.of(job.spec) for job in jobs]
        weight = np.array([each.devices * each.milli / MILLI_PER_DEVICE for each in devices])
        return _count(start, end, edges[1:], weight)

    def _use(self, start_s: float, count: int) -> Floats:
        """Means over the steps of what was measured; NaN where nothing was."""
        assert self._measured is not None
        values = np.full(count, np.nan)
        if not count:
            return values
        try:
            times_s, found = self._measured(UTILISATION, count * USE.step_s + 2 * USE.step_s)
        except (OSError, ValueError):
            return values
        slots = np.floor((times_s - start_s) / USE.step_s).astype(int)
        inside = (slots >= 0) & (slots < count)
        sums = np.bincount(slots[inside], found[inside], count)
        counts = np.bincount(slots[inside], minlength=count)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _never(job: Job) -> float:
    """When a job started that has not: never, or at its end if it was cancelled."""
    return float(job.end_us) if job.state.final else math.inf


def _count(begin: Floats, end: Floats, at: Floats, weight: Floats) -> Floats:
    """The weight of all that has begun and not ended, at each instant."""
    if not len(begin):
        return np.zeros(len(at))
    by_begin, by_end = np.argsort(begin), np.argsort(end)
    begun = np.append(0.0, np.cumsum(weight[by_begin]))
    ended = np.append(0.0, np.cumsum(weight[by_end]))
    there = begun[np.searchsorted(begin[by_begin], at, side="right")]
    return np.asarray(there - ended[np.searchsorted(end[by_end], at, side="right")], float)
