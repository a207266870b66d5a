"""What is learnt from each end: how far to trust the trees, and how wide the band must be.

Both learn on line, from predictions made before and ends seen after. A band's two edges are
moved separately: up by a miss, down a little by a hit, so that in the long run each is missed as
often as it should be, whatever the trees do. That a job runs longer than its upper edge is
known the moment it does so, not only when it ends.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from flyball.core.results import Floats
from flyball.predict.runtime.rows import SHORTEST_S
from flyball.predict.runtime.trees import LEVELS, MIDDLE

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Weights of the trees' point against the median of the latest jobs that are tried."""
FORGET = 1.0 / 3000.0
"""How fast errors of the blend are forgotten, per job."""
RATE = 0.02
"""Log units by which an edge moves at a miss."""
LARGEST = 6.0
"""Log units an edge may be moved in all."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Two points and a band, all logarithms of seconds; the band not yet moved."""

    trees: float
    recent: float
    quantiles: tuple[float, ...]


@dataclass
class Blend:
    """How the two points are mixed: the share with the smallest recent mean absolute error."""

    errors: list[float] = field(default_factory=lambda: [0.0] * len(SHARES))
    seen: float = 0.0

    @property
    def share(self) -> float:
        """Of the trees; all of it until there is evidence."""
        if self.seen < 50.0:
            return 1.0
        return SHARES[int(np.argmin(self.errors))]

    def point(self, guess: Guess) -> float:
        """The mixed point."""
        if math.isnan(guess.recent):
            return guess.trees
        return self.share * guess.trees + (1.0 - self.share) * guess.recent

    def learn(self, guess: Guess, log_s: float) -> None:
        """A job ended: what would each share have said?"""
        if math.isnan(guess.recent):
            return
        self.seen += 1.0
        rate = max(FORGET, 1.0 / self.seen)
        for at, share in enumerate(SHARES):
            error = abs(share * guess.trees + (1.0 - share) * guess.recent - log_s)
            self.errors[at] += rate * (error - self.errors[at])


@dataclass
class Band:
    """How far the lower and the upper edge are moved out."""

    low: float = 0.0
    high: float = 0.0

    def learn_low(self, missed: bool) -> None:
        """Whether a job was shorter than its lower edge."""
        self.low = _moved(self.low, missed, LEVELS[0])

    def learn_high(self, missed: bool) -> None:
        """Whether a job is longer than its upper edge."""
        self.high = _moved(self.high, missed, 1.0 - LEVELS[-1])


def _moved(offset: float, missed: bool, part: float) -> float:
    return float(np.clip(offset + RATE * (missed - part), -LARGEST, LARGEST))


@dataclass(slots=True)
class _Open:
    """A prediction whose job has not ended."""

    guess: Guess
    low: float
    high: float
    start_s: float = math.inf
    high_known: bool = False


@dataclass
class Calibrator:
    """Turns guesses into quantiles, and learns from what becomes of them."""

    blend: Blend = field(default_factory=Blend)
    band: Band = field(default_factory=Band)
    _open: dict[Hashable, _Open] = field(default_factory=dict, repr=False)
    _due: list[tuple[float, int, Hashable]] = field(default_factory=list, repr=False)
    _count: int = 0

    def quantiles(self, guess: Guess) -> Floats:
        """Logarithms, rising, one for each of `LEVELS`."""
        made = np.array(guess.quantiles)
        point = self.blend.point(guess)
        made[MIDDLE] = point
        made[:MIDDLE] = np.minimum(np.sort(made[:MIDDLE]), point)
        made[MIDDLE + 1 :] = np.maximum(np.sort(made[MIDDLE + 1 :]), point)
        # The quarters move a third as far: between them and the edges nothing is measured.
        made -= self.band.low * np.array([1.0, 1 / 3, 0.0, 0.0, 0.0])
        made += self.band.high * np.array([0.0, 0.0, 0.0, 1 / 3, 1.0])
        return np.asarray(np.maximum(np.sort(made), math.log(SHORTEST_S)), np.float64)

    def expect(self, job: Hashable, guess: Guess) -> Floats:
        """The quantiles of a job that has come, and a note to learn from it later."""
        made = self.quantiles(guess)
        self._open[job] = _Open(guess, float(made[0]), float(made[-1]))
        return made

    def started(self, job: Hashable, start_s: float) -> None:
        """It runs: from now on its upper edge comes nearer."""
        if job in self._open:
            self._open[job].start_s = start_s
            self._count += 1
            due_s = start_s + math.exp(self._open[job].high)
            heapq.heappush(self._due, (due_s, self._count, job))

    def advance(self, now_s: float) -> None:
        """Time has passed: who has outlived the upper edge?"""
        while self._due and self._due[0][0] < now_s:
            job = heapq.heappop(self._due)[-1]
            found = self._open.get(job)
            if found is not None and not found.high_known:
                found.high_known = True
                self.band.learn_high(True)

    def ended(self, job: Hashable, log_s: float) -> None:
        """It has ended."""
        found = self._open.pop(job, None)
        if found is None:
            return
        self.blend.learn(found.guess, log_s)
        self.band.learn_low(log_s < found.low)
        if not found.high_known:
            self.band.learn_high(log_s > found.high)

    def forget(self, job: Hashable) -> None:
        """It was cancelled: nothing can be learnt of how long it would have run."""
        self._open.pop(job, None)
