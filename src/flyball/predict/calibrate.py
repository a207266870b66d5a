"""Bands that hold what they promise: rolling conformal correction with an adaptive level.

A forecaster offers a lower and an upper bound. How far the values fell outside of each lately
(negative: how far inside) says by how much the bounds must move. The share of misses asked of the
window is itself adapted after every outcome (it was a miss: ask for less), so the covered share
comes back after a change of regime. Both sides share that level: a series that sits on its lower
bound, as counts on zero do, gets its misses on the other side and still has the promised cover.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

WINDOW = 1_000
"""Outcomes that are remembered."""
LEAST = 20
"""Outcomes before which the band is as wide as anything ever seen, times `WIDE`."""
WIDE = 1.5
MOST_ASKED = 1.8
"""Beyond 1 the bounds move in past the middle of the window: needed where half of the values are
equal to a bound."""
GAIN = 0.02
"""How far one outcome moves the level: over T outcomes the share of misses is within about 1 / (T x
gain) of the promised one, whatever happens."""


class Rolling:
    """The last outcomes, kept in order."""

    def __init__(self, window: int = WINDOW) -> None:
        self._sorted: list[float] = []
        self._ages: deque[float] = deque()
        self._window = window

    def __len__(self) -> int:
        return len(self._ages)

    def add(self, value: float) -> None:
        insort(self._sorted, value)
        self._ages.append(value)
        if len(self._ages) > self._window:
            del self._sorted[bisect_left(self._sorted, self._ages.popleft())]

    def quantile(self, level: float) -> float:
        """The smallest value that at least `level` of the window does not exceed."""
        count = len(self._sorted)
        index = min(count - 1, max(0, int(level * (count + 1)) - 1 + (level * (count + 1) % 1 > 0)))
        return self._sorted[index]


class Band:
    """One band, e.g. the middle 90 %."""

    def __init__(self, cover: float, gain: float = GAIN, window: int = WINDOW) -> None:
        self.miss = 1.0 - cover
        self._asked = self.miss
        self._gain = gain
        self._below, self._above = Rolling(window), Rolling(window)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """The offered bounds, corrected."""
        if not len(self._below):
            return low, high
        if len(self._below) < LEAST:
            reach = WIDE * max(self._below.quantile(1.0), self._above.quantile(1.0), 0.0)
            return low - reach, high + reach
        side = 1.0 - self._asked / 2
        low, high = low - self._below.quantile(side), high + self._above.quantile(side)
        if low > high:  # both sides moved in past each other
            low = high = (low + high) / 2
        return low, high

    def learn(self, low: float, high: float, given: tuple[float, float], value: float) -> None:
        """An outcome: what was offered, what was `given` after correction, what happened."""
        missed = 0.0 if given[0] <= value <= given[1] else 1.0
        self._below.add(low - value)
        self._above.add(value - high)
        asked = self._asked + self._gain * (self.miss - missed)
        self._asked = min(MOST_ASKED, max(0.0, asked))
