"""Which forecaster to trust, decided again at every step by how each has done lately.

A `Tracker` follows one series at one lead. Each outcome adds to the decayed loss of every
forecaster; the best one is used, or the average weighted by their losses where that has done
better. Another takes over only if it is clearly better, the clearer the less has been seen, so
that chance does not swap them. Points are chosen by absolute error, the mean by squared error, the
band by its interval score.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flyball.core.results import Floats
from flyball.predict.calibrate import GAIN, WINDOW, Band
from flyball.predict.series import Series

COVERS = (0.9, 0.8, 0.5)
"""The bands that are calibrated; with the median they make the levels."""
AVERAGE = "average"
MARGIN = 0.3
"""How much better another must be to take over, divided by the root of the number of outcomes that
matter and are at least a lead apart: nearer ones are much alike and prove little."""
SHORT = 25.0
"""A history of so many leads doubles the margin: what was fitted on few of them has seen little of
what can happen, and its first successes prove little too."""
SHARPNESS = 25.0
"""How fast the weight in the average falls with the loss relative to the best."""
CHOOSING = 0.01
"""What choosing the band that did best takes from its cover: the luckiest is a little narrow."""
SLOWEST = 0.1
SPANS = 14
"""Leads that the window of a band holds at least: nearer outcomes are much alike."""
MEMORY_S = 4 * 86_400.0
"""After this time, or after `LEADS_KEPT` leads if that is longer, a loss counts half."""
LEADS_KEPT = 28.0
MOST_MEMORY = 6_000.0
"""Steps after which a loss counts half at the latest: a series of milliseconds has no days."""
PANEL = 10.0
"""Outcomes a lead apart that the rest of the panel's experience is worth: a series with fewer of
its own is judged mostly by how the forecasters do on the others."""
BOTTOM_UP = "parts"
"""Trusted first where a series knows its parts."""
IN_DOUBT = "yesterday+smoothing+linear"
NEARLY = 1.25
"""Trusted first where the error of yesterday has been at most so many times that of the last value
(averaging makes up for that much); elsewhere the last value is."""


class Offer(NamedTuple):
    """What the forecasters say at one origin: a row each."""

    medians: Floats
    means: Floats
    bounds: list[list[tuple[float, float]]]
    """For each forecaster that offers bands, low and high for each of `COVERS`."""


class Choice(NamedTuple):
    """What is said to the world."""

    median: float
    mean: float
    quantiles: list[float]
    bands: list[tuple[float, float]]
    """The 90 % band of each forecaster that offers one, calibrated."""
    used: int
    band_of: int


@dataclass
class _Open:
    """A forecast whose outcome is not known yet."""

    medians: Floats
    means: Floats
    bounds: list[list[tuple[float, float]]]
    given: list[list[tuple[float, float]]]


class Panel:
    """The losses of every forecaster on all series of a panel at one lead, together."""

    def __init__(self, points: int) -> None:
        self.losses = np.zeros(points + 1)


class Tracker:
    """One series at one lead.

    Args:
        points: how many forecasters offer points.
        banded: how many offer bands.
        lead: steps until an outcome is known.
        memory: steps after which a loss counts half.
        floor: the least value there can be.
        first: the forecaster to stay with in doubt.
        panel: what trackers of like series learnt; None = it is alone.
        known: steps of history there are so far.
    """

    def __init__(
        self,
        points: int,
        banded: int,
        lead: int,
        memory: float,
        floor: float = -math.inf,
        first: int = 0,
        panel: Panel | None = None,
        known: int = 0,
    ) -> None:
        self.panel, self._known = panel, known
        self.losses, self.squares = np.zeros(points + 1), np.zeros(points + 1)
        self.scores = np.zeros(banded)
        # News is a lead late: who acts on it too fast swings between too wide and too narrow.
        gain = min(GAIN, SLOWEST / lead)
        window = max(WINDOW, SPANS * lead)
        self.bands = [
            [Band(each + CHOOSING, gain, window) for each in COVERS] for _ in range(banded)
        ]
        self._lead = lead
        self.keep = 0.5 ** (1.0 / max(memory, LEADS_KEPT * lead))
        self._floor = floor
        self._open: deque[_Open] = deque()
        self._used = self._mean_of = first
        self._band_of = 0
        self._events = 0.0

    @property
    def waiting(self) -> int:
        """Forecasts without an outcome so far."""
        return len(self._open)

    def propose(self, offer: Offer) -> Choice:
        """Choose among what is offered, and remember it until the outcome is known."""
        weights = self.weights()
        medians = np.append(offer.medians, weights @ offer.medians)
        means = np.append(offer.means, weights @ offer.means)
        given = [
            [self._floored(band.bounds(*pair)) for band, pair in zip(bands, bounds, strict=True)]
            for bands, bounds in zip(self.bands, offer.bounds, strict=True)
        ]
        median = float(medians[self._used])
        chosen = given[self._band_of]
        lows = [min(pair[0], median) for pair in chosen]
        highs = [max(pair[1], median) for pair in chosen]
        for wider in (1, 0):  # a wider band holds the narrower one
            lows[wider] = min(lows[wider], lows[wider + 1])
            highs[wider] = max(highs[wider], highs[wider + 1])
        self._open.append(_Open(medians, means, offer.bounds, given))
        return Choice(
            median,
            float(means[self._mean_of]),
            [*lows, median, *reversed(highs)],
            [pairs[0] for pairs in given],
            self._used,
            self._band_of,
        )

    def learn(self, value: float) -> None:
        """The outcome of the oldest forecast that has none yet; NaN = it will never be known."""
        past = self._open.popleft()
        self._known += 1
        if not math.isfinite(value):
            return
        errors = np.abs(past.medians - value)
        self.losses = self.keep * self.losses + errors
        self.squares = self.keep * self.squares + (past.means - value) ** 2
        for index, bands in enumerate(self.bands):
            offered, given = past.bounds[index], past.given[index]
            for band, pair, said in zip(bands, offered, given, strict=True):
                band.learn(*pair, said, value)
            score = interval_score(*given[0], value, 1.0 - COVERS[0])
            self.scores[index] = self.keep * self.scores[index] + score
        self._events = self.keep * self._events + errors[self._used] ** 2
        margin = MARGIN * (1.0 + SHORT * self._lead / (self._known + 1))
        self._used = _better(self._judged(errors), self._used, self._clearly(margin))
        self._mean_of = _better(self.squares, self._mean_of, self._clearly(margin))
        # Every band is calibrated: a wrong choice costs width, not cover.
        self._band_of = _better(self.scores, self._band_of, self._clearly(MARGIN))

    def _clearly(self, margin: float) -> float:
        """The part of the loss in use below which another takes over.

        Errors that are nothing for a week and large for an hour are few outcomes however many
        steps they span: (sum of losses)^2 / sum of their squares counts those that matter.
        """
        count = self._count()
        return 1.0 - min(1.0, margin / math.sqrt(count)) if count > 0.0 else 1.0

    def _count(self) -> float:
        """Outcomes that matter and are a lead apart."""
        loss = float(self.losses[self._used])
        return 0.0 if min(loss, self._events) <= 0.0 else loss**2 / self._events / self._lead

    def _judged(self, errors: Floats) -> Floats:
        """Losses relative to the one in use, drawn towards those on the whole panel."""
        panel, own = self.panel, float(self.losses[self._used])
        if panel is None:
            return self.losses
        panel.losses += errors
        others = float(panel.losses[self._used])
        if min(own, others) <= 0.0:
            return self.losses
        count = self._count()
        drawn: Floats = (count * self.losses / own + PANEL * panel.losses / others) / (
            count + PANEL
        )
        return drawn

    def weights(self) -> Floats:
        """Of each forecaster in the average: the smaller its loss, the more."""
        losses = self.losses[:-1]
        best = float(losses.min())
        if best <= 0.0:
            even = (losses <= 0.0).astype(float)
            shared: Floats = even / even.sum()
            return shared
        weights = np.exp(-SHARPNESS * np.minimum(losses / best - 1.0, 20.0))
        normed: Floats = weights / weights.sum()
        return normed

    def _floored(self, pair: tuple[float, float]) -> tuple[float, float]:
        return max(pair[0], self._floor), max(pair[1], self._floor)


def _better(losses: Floats, used: int, clearly: float) -> int:
    best = int(losses.argmin())
    return best if losses[best] < clearly * losses[used] else used


def interval_score(low: float, high: float, value: float, miss: float) -> float:
    """Width, and for a value outside 2 / miss times how far; the lower the better."""
    return high - low + 2.0 / miss * (max(low - value, 0.0) + max(value - high, 0.0))


def new_tracker(
    series: Series,
    origin: int,
    names: Sequence[str],
    banded: int,
    lead: int,
    panel: Panel | None = None,
) -> Tracker:
    """A tracker of these forecasters for a series of which `origin` is the first origin."""
    early = series.values[: origin + 1]
    floor = 0.0 if np.nanmin(early, initial=0.0) >= 0 else -math.inf
    first = 0
    if BOTTOM_UP in names and series.parts:
        first = list(names).index(BOTTOM_UP)
    elif IN_DOUBT in names and _seasonal(series, early, lead):
        first = list(names).index(IN_DOUBT)
    memory = min(MEMORY_S / series.step_s, MOST_MEMORY)
    return Tracker(len(names), banded, lead, memory, floor, first, panel, origin)


def _seasonal(series: Series, early: Floats, lead: int) -> bool:
    """Whether the same time of the last day was nearly as good a forecast as the last value.

    A whole day ahead the two are the same; so it is asked at a quarter of a day at most.
    """
    back = series.day
    if not back or len(early) < 2 * back:
        return False
    lead = min(lead, max(1, back // 4))
    target, same_time, last = early[back:], early[:-back], early[back - lead : -lead]
    misses = np.abs(target - same_time), np.abs(target - last)
    known = np.isfinite(misses[0]) & np.isfinite(misses[1])
    return bool(misses[0][known].sum() <= NEARLY * misses[1][known].sum()) and bool(known.any())
