"""What every forecaster of load is: learns from a panel of series, then answers for origins.

An *origin* is the index of the last value that is known; the *lead* is how many steps after it
the value lies that is asked for. One call answers for many origins, so that a back-test and the
live loop run the same code. A forecaster may look at `values[: origin + 1]` only; the contract
tests change what comes after and demand the same answer.
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
"""Up to here the last values say most; beyond, the time of the day does."""
FITTED = (0.05, 0.5, 0.95)
"""Quantiles that are learnt; the others lie between them and calibration moves them."""


class Outlook(NamedTuple):
    """One row per origin.

    Attributes:
        mean: what capacity needs; of a skewed series well above the median.
        quantiles: a column for each of `LEVELS`, never decreasing; all equal where the
            forecaster knows a point only (calibration then makes the band).
    """

    mean: Floats
    quantiles: Floats

    @property
    def median(self) -> Floats:
        middle: Floats = self.quantiles[:, MEDIAN]
        return middle


class LoadForecaster(Protocol):
    """One way to forecast. Stateless after `fit`; `fit` again replaces what was learnt."""

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None: ...
    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook: ...
    def save(self) -> Mapping[str, Any]:
        """Plain values for JSON, and bytes for a file beside it (`files.py`)."""
        ...

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self: ...


def neighbours(leads: Iterable[int], lead: int) -> list[tuple[int, float]]:
    """The fitted leads around one that is asked for, with weights by ratio; outside: the end."""
    below = max((each for each in leads if each <= lead), default=None)
    above = min((each for each in leads if each >= lead), default=None)
    if below is None or above is None or below == above:
        end = below if below is not None else above
        return [] if end is None else [(end, 1.0)]
    part = math.log(lead / below) / math.log(above / below)
    return [(below, 1.0 - part), (above, part)]


def certain(points: Floats) -> Outlook:
    """An outlook of a forecaster that knows a point only."""
    return Outlook(points, np.repeat(points[:, None], len(LEVELS), axis=1))


def all_levels(fitted: Floats) -> Floats:
    """All of `LEVELS` from columns of `FITTED`: straight lines, which the calibration mends."""
    columns = []
    for level in LEVELS:
        high = max(1, int(np.searchsorted(FITTED, level)))
        part = (level - FITTED[high - 1]) / (FITTED[high] - FITTED[high - 1])
        columns.append(fitted[:, high - 1] + part * (fitted[:, high] - fitted[:, high - 1]))
    return np.column_stack(columns)
