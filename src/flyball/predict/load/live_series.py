"""Series of a cluster's load, forecast as time passes: in the live worker and in the twin.

| series | step | horizon |
|---|---|---|
| load: devices that submitted jobs hold or ask for | 1 min | 1 h |
| arrivals: jobs submitted in ten minutes | 10 min | 1 day |
| running: devices held by running jobs | 1 min | 1 h |
| pending: jobs that wait | 1 min | 1 h |
| utilisation: of the node's cores in percent, from the monitor | 1 min | 1 h |

A `LoadSeries` is a function of its values alone: it is refitted at fixed numbers of values, not by
the clock of who feeds it. So the same values give the same forecast, to the last bit, whether they
came one by one or all at once, from the journal or from the twin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.forecast import Forecast
from flyball.core.results import Floats, Ints
from flyball.core.units import MILLI_PER_DEVICE, S_PER_DAY, S_PER_HOUR, S_PER_MIN
from flyball.predict.load.ahead import LiveForecast
from flyball.predict.patterns import find_patterns
from flyball.predict.series import Series

FORECASTERS = ("last", "yesterday", "last-week", "smoothing", "linear")
"""Candidates: cheap enough for once a minute, and sound on a history of hours."""
REFIT_S = 6 * S_PER_HOUR
"""Longest time between two fits."""
GROWTH = 1.5
"""A series that grew by this factor since the last fit is refitted."""
MAX_POINTS = 7 * 1440
"""Number of latest values that a fit uses."""
MIN_POINTS_TO_FIT = 60
REHEARSED = 720
"""Largest number of past values on which a fit rehearses the choice of the forecaster."""
DECIMALS = 3
"""Of the values that policies and tuners are given; every decision records them."""
LEVELS_SENT = (0.05, 0.5, 0.95)
MAX_STEPS_SENT = 12
"""Largest number of steps of a forecast in a message."""


@dataclass(frozen=True)
class SeriesKind:
    """Describes a series.

    Attributes:
        slot: values by which its fits come later than those of a series with slot 0, so that no
            two series are fitted in the same minute.
        rungs: number of leads up to the horizon that are tracked.
    """

    name: str
    unit: str
    step_s: float
    ahead_s: float
    slot: int
    rungs: int


LOAD = SeriesKind("load", "devices", S_PER_MIN, S_PER_HOUR, 0, 4)
ARRIVALS = SeriesKind("arrivals", "jobs in 10 min", 10 * S_PER_MIN, S_PER_DAY, 0, 6)
RUNNING = SeriesKind("running", "devices", S_PER_MIN, S_PER_HOUR, 1, 6)
PENDING = SeriesKind("pending", "jobs", S_PER_MIN, S_PER_HOUR, 2, 6)
UTILISATION = SeriesKind("utilisation", "percent", S_PER_MIN, S_PER_HOUR, 3, 6)


class LoadSeries:
    """Holds one series and its forecaster.

    New values wait until `catch_up`, which may fit, so that the caller chooses when that is.
    """

    def __init__(self, kind: SeriesKind, start_s: float, values: Sequence[float] | Floats) -> None:
        self.kind = kind
        self._ahead = self._forecaster(start_s, np.zeros(0))
        self._count = 0
        self._waiting = [float(value) for value in values]

    def _forecaster(self, start_s: float, values: Floats) -> LiveForecast:
        series = Series(self.kind.name, start_s, self.kind.step_s, values)
        return LiveForecast(
            series, self.kind.ahead_s, FORECASTERS, rehearsed=REHEARSED, rungs=self.kind.rungs
        )

    @property
    def values(self) -> Floats:
        """The latest values, with those that wait."""
        return np.append(self._ahead.series.values, self._waiting)

    @property
    def next_s(self) -> float:
        """When the step after the last value ends."""
        return self._end_s + (len(self._waiting) + 1) * self.kind.step_s

    @property
    def _end_s(self) -> float:
        """When the last step that does not wait ended."""
        series = self._ahead.series
        return series.start_s + len(series) * series.step_s

    def extend(self, values: Sequence[float] | Floats) -> None:
        """Append the values of the next steps."""
        self._waiting += [float(value) for value in values]

    @property
    def fit_due(self) -> bool:
        """Whether `catch_up` will fit."""
        return last_fit(self._count + len(self._waiting), self.kind) > self._count

    def catch_up(self) -> None:
        """Take in the values that wait, and fit if that is due among them."""
        due = last_fit(self._count + len(self._waiting), self.kind) - self._count
        if due > 0:
            self._fit(np.append(self._ahead.series.values, self._waiting[:due]))
        for value in self._waiting[max(due, 0) :]:
            self._ahead.observe(self._end_s, value)
        self._count += len(self._waiting)
        self._waiting = []

    def _fit(self, values: Floats) -> None:
        skip = max(0, len(values) - MAX_POINTS)
        start_s = self._ahead.series.start_s + skip * self.kind.step_s
        self._ahead = self._forecaster(start_s, values[skip:])
        if np.isfinite(values[skip:]).any():
            self._ahead.fit(values[skip:])

    def forecast(self) -> Forecast | None:
        """Return the forecast for policies and tuners; None while there is no value."""
        if not np.isfinite(self._ahead.series.values).any():
            return None
        forecast = self._ahead.predict_rungs()
        quantiles, mean = (np.round(part, DECIMALS) for part in forecast[1:3])
        return forecast._replace(quantiles=quantiles, mean=mean)

    def message(self) -> dict[str, Any] | None:
        """Return the forecast as it is sent and shown; None while there is no value."""
        try:
            forecast = self._ahead.predict(self.kind.ahead_s)
        except BadInput:
            return None
        steps = len(forecast.mean)
        seen = self._ahead.series.values[-steps:]
        at = np.unique(np.rint(np.linspace(0, steps - 1, min(steps, MAX_STEPS_SENT))).astype(int))
        return {
            "series": self.kind.name,
            "unit": self.kind.unit,
            "time": self._end_s,
            "step_s": forecast.step_s,
            "seen": [round(value, 3) if math.isfinite(value) else None for value in seen.tolist()],
            "ahead_s": ((at + 1) * forecast.step_s).tolist(),
            "mean": forecast.mean[at].tolist(),
            **{
                f"p{round(100 * level):02d}": forecast.row(level)[at].tolist()
                for level in LEVELS_SENT
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


def last_fit(count: int, kind: SeriesKind) -> int:
    """Return the number of values at which a series of `count` was last fitted; 0 = never."""
    longest = math.ceil(REFIT_S / kind.step_s)
    fitted, following = 0, MIN_POINTS_TO_FIT + kind.slot
    while following <= count:
        fitted = following
        following = min(math.ceil(GROWTH * fitted), fitted + longest)
    return fitted


def devices_at(begin_us: Ints | Floats, end_us: Ints | Floats, milli: Ints, at_us: Ints) -> Floats:
    """Return the devices of what has begun and not ended, at each instant.

    Args:
        begin_us, end_us: of every job; infinite = never.
        milli: thousandths of devices of every job, which add up exactly in any order.
        at_us: the instants.
    """
    by_begin, by_end = np.argsort(begin_us), np.argsort(end_us)
    begun = np.append(0, np.cumsum(milli[by_begin]))
    ended = np.append(0, np.cumsum(milli[by_end]))
    there = begun[np.searchsorted(begin_us[by_begin], at_us, side="right")]
    there = there - ended[np.searchsorted(end_us[by_end], at_us, side="right")]
    return np.asarray(there / MILLI_PER_DEVICE, float)
