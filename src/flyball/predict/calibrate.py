"""Calibrated bands: rolling conformal correction with an adaptive level.

A forecaster offers a lower and an upper bound. How far recent values fell outside each (negative:
inside) gives the correction of the bounds. The target share of misses in the window is itself
adapted after every outcome (lowered by a miss), so coverage recovers after a change of regime. Both
sides share that level: a series that sits on its lower bound, as counts do on zero, has its misses
on the other side and still reaches the nominal coverage.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

WINDOW = 1_000
"""Number of outcomes that are remembered."""
LEAST = 20
"""Number of outcomes below which the band is the largest error so far, times `WIDE`."""
WIDE = 1.5
MOST_MISSES = 1.8
"""Highest target share of misses. Above 1 the bounds move in past the middle of the window, as is
needed where half of the values are equal to a bound."""
GAIN = 0.02
"""How far one outcome moves the level: over T outcomes the share of misses is within about 1 / (T x
gain) of the nominal one, for any series."""


class OutcomeWindow:
    """Holds the last outcomes, sorted."""

    def __init__(self, window: int = WINDOW) -> None:
        self._sorted: list[float] = []
        self._ages: deque[float] = deque()
        self._window = window

    def __len__(self) -> int:
        return len(self._ages)

    def add(self, value: float) -> None:
        """Add an outcome; beyond the window the oldest one is removed."""
        insort(self._sorted, value)
        self._ages.append(value)
        if len(self._ages) > self._window:
            del self._sorted[bisect_left(self._sorted, self._ages.popleft())]

    def quantile(self, level: float) -> float:
        """Return the smallest value that at least `level` of the window does not exceed."""
        count = len(self._sorted)
        index = min(count - 1, max(0, int(level * (count + 1)) - 1 + (level * (count + 1) % 1 > 0)))
        return self._sorted[index]


class Band:
    """Calibrates one band, e.g. the middle 90 %."""

    def __init__(self, cover: float, gain: float = GAIN, window: int = WINDOW) -> None:
        self.miss = 1.0 - cover
        self._target = self.miss
        self._gain = gain
        self._below, self._above = OutcomeWindow(window), OutcomeWindow(window)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """Return the offered bounds, corrected."""
        if not len(self._below):
            return low, high
        if len(self._below) < LEAST:
            reach = WIDE * max(self._below.quantile(1.0), self._above.quantile(1.0), 0.0)
            return low - reach, high + reach
        side = 1.0 - self._target / 2
        low, high = low - self._below.quantile(side), high + self._above.quantile(side)
        if low > high:  # both sides moved in past each other
            low = high = (low + high) / 2
        return low, high

    def learn(self, low: float, high: float, corrected: tuple[float, float], value: float) -> None:
        """Learn from an outcome: the bounds offered, those after correction, and the value."""
        missed = 0.0 if corrected[0] <= value <= corrected[1] else 1.0
        self._below.add(low - value)
        self._above.add(value - high)
        target = self._target + self._gain * (self.miss - missed)
        self._target = min(MOST_MISSES, max(0.0, target))
