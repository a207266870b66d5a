"""Learns from each end: the weight of the trees, and the width of the band.

Both learn online, from predictions at submission and the ends seen later. The two edges of the
band move separately: out by a miss, in a little by a hit, so that in the long run each is missed
as often as its level states, whatever the trees predict. A job that outruns its upper edge counts
as a miss at that moment, not only when it ends.
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
"""Candidate weights of the trees' point against the median of the latest jobs."""
FORGET = 1.0 / 3000.0
"""Rate at which errors of the blend are forgotten, per job."""
RATE = 0.02
"""Log units by which an edge moves at a miss."""
LARGEST = 6.0
"""Maximum offset of an edge, in log units."""


@dataclass(frozen=True, slots=True)
class RunTimeGuess:
    """Holds two points and an uncalibrated band, all logarithms of seconds."""

    trees: float
    recent: float
    quantiles: tuple[float, ...]


@dataclass
class Blend:
    """Mixes the two points by the share with the smallest recent mean absolute error."""

    errors: list[float] = field(default_factory=lambda: [0.0] * len(SHARES))
    seen: float = 0.0

    @property
    def share(self) -> float:
        """Share of the trees; 1 until there is evidence."""
        if self.seen < 50.0:
            return 1.0
        return SHARES[int(np.argmin(self.errors))]

    def point(self, guess: RunTimeGuess) -> float:
        """Return the mixed point."""
        if math.isnan(guess.recent):
            return guess.trees
        return self.share * guess.trees + (1.0 - self.share) * guess.recent

    def learn(self, guess: RunTimeGuess, log_s: float) -> None:
        """Update the error of each share with an ended job."""
        if math.isnan(guess.recent):
            return
        self.seen += 1.0
        rate = max(FORGET, 1.0 / self.seen)
        for index, share in enumerate(SHARES):
            error = abs(share * guess.trees + (1.0 - share) * guess.recent - log_s)
            self.errors[index] += rate * (error - self.errors[index])


@dataclass
class EdgeOffsets:
    """Holds how far the lower and the upper edge of the band are moved out."""

    low: float = 0.0
    high: float = 0.0

    def learn_low(self, missed: bool) -> None:
        """Learn whether a job was shorter than its lower edge."""
        self.low = _moved(self.low, missed, LEVELS[0])

    def learn_high(self, missed: bool) -> None:
        """Learn whether a job is longer than its upper edge."""
        self.high = _moved(self.high, missed, 1.0 - LEVELS[-1])


def _moved(offset: float, missed: bool, part: float) -> float:
    return float(np.clip(offset + RATE * (missed - part), -LARGEST, LARGEST))


@dataclass(slots=True)
class _Open:
    """Holds a prediction whose job has not ended."""

    guess: RunTimeGuess
    low: float
    high: float
    start_s: float = math.inf
    high_known: bool = False


@dataclass
class Calibrator:
    """Turns guesses into quantiles, and learns from the ends of their jobs."""

    blend: Blend = field(default_factory=Blend)
    band: EdgeOffsets = field(default_factory=EdgeOffsets)
    _open: dict[Hashable, _Open] = field(default_factory=dict, repr=False)
    _due: list[tuple[float, int, Hashable]] = field(default_factory=list, repr=False)
    _count: int = 0

    def quantiles(self, guess: RunTimeGuess) -> Floats:
        """Return rising logarithms of seconds, one for each of `LEVELS`."""
        logs = np.array(guess.quantiles)
        point = self.blend.point(guess)
        logs[MIDDLE] = point
        logs[:MIDDLE] = np.minimum(np.sort(logs[:MIDDLE]), point)
        logs[MIDDLE + 1 :] = np.maximum(np.sort(logs[MIDDLE + 1 :]), point)
        # The quartiles move a third as far: only the edges are calibrated.
        logs -= self.band.low * np.array([1.0, 1 / 3, 0.0, 0.0, 0.0])
        logs += self.band.high * np.array([0.0, 0.0, 0.0, 1 / 3, 1.0])
        return np.asarray(np.maximum(np.sort(logs), math.log(SHORTEST_S)), np.float64)

    def expect(self, job: Hashable, guess: RunTimeGuess) -> Floats:
        """Return the quantiles of a submitted job, and remember it to learn from its end."""
        logs = self.quantiles(guess)
        self._open[job] = _Open(guess, float(logs[0]), float(logs[-1]))
        return logs

    def started(self, job: Hashable, start_s: float) -> None:
        """Record a start: the job reaches its upper edge that much later."""
        if job in self._open:
            self._open[job].start_s = start_s
            self._count += 1
            due_s = start_s + math.exp(self._open[job].high)
            heapq.heappush(self._due, (due_s, self._count, job))

    def advance(self, now_s: float) -> None:
        """Count jobs that have outrun their upper edge by now as misses."""
        while self._due and self._due[0][0] < now_s:
            job = heapq.heappop(self._due)[-1]
            prediction = self._open.get(job)
            if prediction is not None and not prediction.high_known:
                prediction.high_known = True
                self.band.learn_high(True)

    def ended(self, job: Hashable, log_s: float) -> None:
        """Learn from the run time of an ended job."""
        prediction = self._open.pop(job, None)
        if prediction is None:
            return
        self.blend.learn(prediction.guess, log_s)
        self.band.learn_low(log_s < prediction.low)
        if not prediction.high_known:
            self.band.learn_high(log_s > prediction.high)

    def forget(self, job: Hashable) -> None:
        """Drop a cancelled job, whose run time will never be known."""
        self._open.pop(job, None)
