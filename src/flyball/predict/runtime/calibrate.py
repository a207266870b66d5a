"""Learns from each end: which point to predict, and the width of the band.

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
from flyball.predict.runtime.choose import PointChoice, RunTimeGuess, owners_of
from flyball.predict.runtime.history import Key
from flyball.predict.runtime.rows import SHORTEST_S, Asked
from flyball.predict.runtime.trees import LEVELS, MIDDLE

RATE = 0.02
"""Log units by which an edge moves at a miss."""
LARGEST = 6.0
"""Maximum offset of an edge, in log units."""


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
    owners: tuple[Key, ...]
    low: float
    high: float
    start_s: float = math.inf
    high_known: bool = False


@dataclass
class Calibrator:
    """Turns guesses into quantiles, and learns from the ends of their jobs."""

    choice: PointChoice = field(default_factory=PointChoice)
    band: EdgeOffsets = field(default_factory=EdgeOffsets)
    _open: dict[Hashable, _Open] = field(default_factory=dict, repr=False)
    _due: list[tuple[float, int, Hashable]] = field(default_factory=list, repr=False)
    _count: int = 0

    def quantiles(self, guess: RunTimeGuess, asked: Asked) -> Floats:
        """Return rising logarithms of seconds, one for each of `LEVELS`."""
        logs = np.array(guess.quantiles)
        point = self.choice.point(guess, owners_of(asked))
        logs[MIDDLE] = point
        logs[:MIDDLE] = np.minimum(np.sort(logs[:MIDDLE]), point)
        logs[MIDDLE + 1 :] = np.maximum(np.sort(logs[MIDDLE + 1 :]), point)
        # The quartiles move a third as far: only the edges are calibrated.
        logs -= self.band.low * np.array([1.0, 1 / 3, 0.0, 0.0, 0.0])
        logs += self.band.high * np.array([0.0, 0.0, 0.0, 1 / 3, 1.0])
        return np.asarray(np.maximum(np.sort(logs), math.log(SHORTEST_S)), np.float64)

    def expect(self, job: Hashable, guess: RunTimeGuess, asked: Asked) -> Floats:
        """Return the quantiles of a submitted job, and remember it to learn from its end."""
        logs = self.quantiles(guess, asked)
        self._open[job] = _Open(guess, owners_of(asked), float(logs[0]), float(logs[-1]))
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
        self.choice.learn(prediction.guess, prediction.owners, log_s)
        self.band.learn_low(log_s < prediction.low)
        if not prediction.high_known:
            self.band.learn_high(log_s > prediction.high)

    def forget(self, job: Hashable) -> None:
        """Drop a cancelled job, whose run time will never be known."""
        self._open.pop(job, None)
