"""Forecasts of thousands of series, such as a cluster's nodes, at every step on one core.

Trees are too slow for thousands of series every minute. A `Fleet` keeps the states of
exponential smoothing as arrays, one number per series, so a step is a few vector operations; the
choice among the last value, yesterday and smoothing, and the bands, are those of `Tracker`, one per
series. The forecasts equal those of `smoothing.py` and `naive.py`, which tests check.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.core.units import S_PER_DAY, S_PER_HOUR
from flyball.predict.load.contract import LEVELS
from flyball.predict.load.smoothing import DAMPING, SmoothingSettings
from flyball.predict.select import MEMORY_S, ForecastOffer, Tracker

DEFAULT = SmoothingSettings(profile=0.3, level=0.6, trend=0.0, keep=0.9)
NAMES = ("last", "yesterday", "smoothing")


class FleetForecast(NamedTuple):
    """Holds a row per series: the mean, and a column for each of `LEVELS`."""

    mean: Floats
    quantiles: Floats


class Fleet:
    """Forecasts series that are observed together.

    Args:
        count: number of series.
        step_s: time between two observations.
        lead: steps ahead.
        settings: settings of the smoothing.
        floor: least possible value.
    """

    def __init__(
        self,
        count: int,
        step_s: float,
        lead: int,
        settings: SmoothingSettings = DEFAULT,
        floor: float = 0.0,
    ) -> None:
        if count < 1 or lead < 1 or step_s <= 0:
            raise BadInput(f"{count} series, {lead} steps ahead, {step_s} s", "use at least 1")
        day = S_PER_DAY / step_s
        self.day = round(day) if day >= 2 and abs(day - round(day)) < 1e-6 else 0
        self.lead, self.step_s, self.settings = lead, step_s, settings
        self.seen = 0
        self._last = np.zeros(count)
        self._values = np.zeros((max(self.day, 1), count))  # of the last day, by time of day
        self._profile = np.zeros((max(self.day, 1), count))
        self._level, self._trend = np.zeros(count), np.zeros(count)
        memory = MEMORY_S / step_s
        self._trackers = [Tracker(len(NAMES), 2, lead, memory, floor) for _ in range(count)]
        self._mean = np.zeros(count)
        self._quantiles = np.zeros((count, len(LEVELS)))

    def observe(self, values: Floats) -> None:
        """Add the next value of every series; NaN = missing."""
        is_known = np.isfinite(values)
        filled = np.where(is_known, values, self._last)
        self._smooth(filled)
        self._last = filled
        self._values[self._slot(0)] = filled
        self.seen += 1
        offers = self._points()
        learns = self._trackers[0].waiting >= self.lead
        news = np.where(is_known, values, math.nan).tolist()
        table = offers.T.copy()
        bands = offers[[0, 2]].T.tolist()
        for index, tracker in enumerate(self._trackers):
            if learns:
                tracker.learn(news[index])
            row = table[index]
            pairs = [[(point, point)] * 3 for point in bands[index]]
            choice = tracker.propose(ForecastOffer(row, row, pairs))
            self._mean[index] = choice.mean
            self._quantiles[index] = choice.quantiles

    def forecast(self) -> FleetForecast:
        """Return the forecast `lead` steps after the last observation.

        Raises:
            BadInput: nothing was observed yet.
        """
        if not self.seen:
            raise BadInput("nothing was observed yet", "observe a step first")
        return FleetForecast(self._mean.copy(), self._quantiles.copy())

    def _slot(self, ahead: int) -> int:
        return (self.seen + ahead) % self.day if self.day else 0

    @property
    def _seasonal(self) -> bool:
        return bool(self.day and self.settings.profile)

    def _smooth(self, filled: Floats) -> None:
        """Apply one step of the recursions of `smoothing.py` to all series."""
        settings = self.settings
        rest = filled
        if self._seasonal:
            slot = self._slot(0)
            if self.seen < self.day:
                self._profile[slot], rest = filled, np.zeros(len(filled))
            else:
                rest = filled - self._profile[slot]
                self._profile[slot] += settings.profile * rest
        if not self.seen:
            self._level = rest.copy()
        before = self._level
        expected = before + DAMPING * self._trend
        self._level = expected + settings.level * (rest - expected)
        if settings.trend:
            damped = DAMPING * self._trend
            self._trend = damped + settings.trend * (self._level - before - damped)

    def _points(self) -> Floats:
        """Return the points of last, yesterday and smoothing, one row each."""
        lead, settings = self.lead, self.settings
        damped = DAMPING * (1 - DAMPING**lead) / (1 - DAMPING)
        # `seen` already counts the last observation, which therefore has slot -1.
        target = self._slot(lead - 1)
        back = -(-lead // self.day) * self.day if self.day else 0
        has_day = bool(self.day) and self.seen - 1 + lead - back >= 0
        yesterday = self._values[target] if has_day else self._last
        if self._seasonal:
            base = self._profile[target] if has_day else self._last
            keep = settings.keep ** (lead * self.step_s / S_PER_HOUR)
            smooth = base + keep * self._level + damped * self._trend
        else:
            smooth = self._level + damped * self._trend
        return np.stack([self._last, yesterday, smooth])
