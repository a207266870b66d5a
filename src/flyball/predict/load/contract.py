"""The contract of a load forecaster: fit on a panel of series, then forecast from origins.

An *origin* is the index of the last known value; the *lead* is the number of steps from it to the
value to forecast. One call takes many origins, so that a back-test and the live loop run the same
code. A forecaster may read `values[: origin + 1]` only; the contract tests change later values
and require the same result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_HOUR
from flyball.predict.series import Series

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
MEDIAN = LEVELS.index(0.5)
NEAR_S = 3.0 * S_PER_HOUR
"""Longest lead at which the last values predict best; beyond it the time of day does."""
FITTED = (0.05, 0.5, 0.95)
"""Levels that are fitted; the others are interpolated, and calibration corrects them."""


class Outlook(NamedTuple):
    """Holds forecasts, one row per origin.

    Attributes:
        mean: the expected value, for capacity; well above the median of a skewed series.
        quantiles: a column for each of `LEVELS`, never decreasing; all equal where the
            forecaster has a point only (calibration then adds the band).
    """

    mean: Floats
    quantiles: Floats

    @property
    def median(self) -> Floats:
        middle: Floats = self.quantiles[:, MEDIAN]
        return middle


class LoadForecaster(Protocol):
    """Forecasts load. Stateless after `fit`; another `fit` replaces what was learnt."""

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None: ...
    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook: ...
    def save(self) -> Mapping[str, Any]:
        """Return plain values for JSON, and bytes for a separate file (`files.py`)."""
        ...

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self: ...


def neighbours(leads: Iterable[int], lead: int) -> list[tuple[int, float]]:
    """Return the fitted leads around a lead, with weights by ratio; outside the range its end."""
    below = max((fitted for fitted in leads if fitted <= lead), default=None)
    above = min((fitted for fitted in leads if fitted >= lead), default=None)
    if below is None or above is None or below == above:
        end = below if below is not None else above
        return [] if end is None else [(end, 1.0)]
    part = math.log(lead / below) / math.log(above / below)
    return [(below, 1.0 - part), (above, part)]


def certain(points: Floats) -> Outlook:
    """Return the outlook of a forecaster that has points only."""
    return Outlook(points, np.repeat(points[:, None], len(LEVELS), axis=1))


def never_negative(series: Series, origins: Ints) -> bool:
    """Return whether the values up to the first of the origins are all at least 0."""
    return bool(np.nanmin(series.values[: origins.min() + 1], initial=0.0) >= 0)


def all_levels(fitted: Floats) -> Floats:
    """Return all of `LEVELS`, interpolated linearly from columns of `FITTED`."""
    columns = []
    for level in LEVELS:
        high = max(1, int(np.searchsorted(FITTED, level)))
        part = (level - FITTED[high - 1]) / (FITTED[high] - FITTED[high - 1])
        columns.append(fitted[:, high - 1] + part * (fitted[:, high] - fitted[:, high - 1]))
    return np.column_stack(columns)
