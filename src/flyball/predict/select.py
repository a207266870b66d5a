"""Which forecaster to trust, decided again at every step by how each has done lately.

A `Tracker` follows one series at one lead. Each outcome adds to the decayed loss of every
forecaster; the best one is used, or the average weighted by their losses where that has done
better. Another takes over only if it is better by more than chance explains (`ledger.py`), the
clearer the less has been seen; and as far as that ceases to be so, the point goes back to what is
trusted in doubt. Points are chosen by absolute error, the mean by squared error, the band by its
interval score.
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
from flyball.predict.ledger import Ledger, Panel, better
from flyball.predict.load.contract import NEAR_S
from flyball.predict.series import Series, whole_numbers

COVERS = (0.9, 0.8, 0.5)
"""The bands that are calibrated; with the median they make the levels."""
AVERAGE = "average"
MARGIN = 1.5
"""Standard errors by which another must have done better to take over."""
SHORT = 25.0
"""A history of so many leads doubles the margin: what was fitted on few of them has seen little of
what can happen, and its first successes prove little too."""
SHARPNESS = 25.0
"""How fast the weight in the average falls with the loss relative to the best."""
SLOWEST = 0.1
SPANS = 28
"""Leads that the window of a band holds at least: nearer outcomes are much alike."""
MEMORY_S = 4 * 86_400.0
"""After this time, or after `LEADS_KEPT` leads if that is longer, a loss counts half."""
LEADS_KEPT = 28.0
MOST_MEMORY = 6_000.0
"""Steps after which a loss counts half at the latest: a series of milliseconds has no days."""
PANEL = 10.0
"""Outcomes a lead apart that the rest of the panel's experience is worth: a series with fewer of
its own is judged mostly by how the forecasters do on the others."""
BOTTOM_UP, FAR_BOTTOM_UP = "parts", "parts+changes+same-time"
"""Trusted first where a series knows its parts, up to `NEAR_S` ahead and beyond."""
IN_DOUBT = "yesterday+smoothing+linear"
NEARLY = 1.25
"""Trusted first where the error of yesterday has been at most so many times that of the last value
(averaging makes up for that much); elsewhere the last value is."""
LEAST_DAYS = 14
"""Of history; with less, in which no week has come again, yesterday must have been better by as
much."""


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
    """After calibration; of the one that was chosen, what was said to the world."""


class Tracker:
    """One series at one lead.

    Args:
        points: how many forecasters offer points.
        banded: how many offer bands.
        lead: steps until an outcome is known.
        memory: steps after which a loss counts half.
        floor: the least value there can be.
        first: the forecaster to stay with in doubt.
        known: steps of history there are so far.
        whole: the values are whole numbers, and so is their median.

    Attributes:
        panel: what trackers of like series learnt; None = it is alone.
    """

    def __init__(
        self,
        points: int,
        banded: int,
        lead: int,
        memory: float,
        floor: float = -math.inf,
        first: int = 0,
        known: int = 0,
        whole: bool = False,
    ) -> None:
        self.panel: Panel | None = None
        self._known, self._whole = known, whole
        # News is a lead late: who acts on it too fast swings between too wide and too narrow.
        gain = min(GAIN, SLOWEST / lead)
        window = max(WINDOW, SPANS * lead)
        self.bands = [[Band(each, gain, window) for each in COVERS] for _ in range(banded)]
        self.lead = lead
        self.keep = 0.5 ** (1.0 / max(memory, LEADS_KEPT * lead))
        self.losses, self.squares = (Ledger(points + 1, self.keep, lead) for _ in range(2))
        self.scores = Ledger(banded, self.keep, lead)
        self._floor = floor
        self._open: deque[_Open] = deque()
        self._first = self._used = self._mean_of = first
        self._part = 1.0
        self._band_of = 0

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
        median = self._point(medians)
        chosen = given[self._band_of]
        lows = [min(pair[0], median) for pair in chosen]
        highs = [max(pair[1], median) for pair in chosen]
        for wider in (1, 0):  # a wider band holds the narrower one
            lows[wider] = min(lows[wider], lows[wider + 1])
            highs[wider] = max(highs[wider], highs[wider + 1])
        choice = Choice(
            median,
            float(means[self._mean_of]),
            [*lows, median, *reversed(highs)],
            [pairs[0] for pairs in given],
            self._used,
            self._band_of,
        )
        given[self._band_of] = list(zip(lows, highs, strict=True))
        self._open.append(_Open(medians, means, offer.bounds, given))
        return choice

    def learn(self, value: float) -> None:
        """The outcome of the oldest forecast that has none yet; NaN = it will never be known."""
        past = self._open.popleft()
        self._known += 1
        if not math.isfinite(value):
            return
        errors = np.abs(past.medians - value)
        self.losses.add(errors)
        self.squares.add((past.means - value) ** 2)
        scores = np.empty(len(self.bands))
        for index, bands in enumerate(self.bands):
            offered, given = past.bounds[index], past.given[index]
            for band, pair, said in zip(bands, offered, given, strict=True):
                band.learn(*pair, said, value)
            scores[index] = interval_score(*given[0], value, 1.0 - COVERS[0])
        self.scores.add(scores)
        margin = MARGIN * (1.0 + SHORT * self.lead / (self._known + 1))
        if self.panel is not None:
            self.panel.note(errors)
        self._used = self._best_point(self._used, margin)
        self._part = self._departure(margin)
        self._mean_of = self.squares.better(self._mean_of, margin)
        # Every band is calibrated: a wrong choice costs width, not cover.
        self._band_of = self.scores.better(self._band_of, MARGIN)

    def _best_point(self, used: int, margin: float) -> int:
        """The best by its own gain, relative to the loss of the one in use, and by the panel's."""
        if self.panel is None:
            return self.losses.better(used, margin)
        return better(*self._judged(used), margin, used)

    def _judged(self, used: int) -> tuple[Floats, Floats]:
        """Gains over the one in use and their standard errors, drawn towards those of the panel."""
        gains, doubt = self.losses.judged(used)
        own = float(self.losses.sums[used])
        others = 0.0 if self.panel is None else float(self.panel.sums[used])
        if self.panel is None or min(own, others) <= 0.0:
            return gains, doubt
        panel_gains, panel_doubt = self.panel.judged(used)
        part = PANEL / (self.losses.count(used) + PANEL)
        drawn = (1.0 - part) * gains / own + part * panel_gains / others
        return drawn, np.hypot((1.0 - part) * doubt / own, part * panel_doubt / others)

    def _departure(self, margin: float) -> float:
        """How far to go from the one that is trusted in doubt to the one in use: all the way while
        that one is better beyond chance, less as its lead fades."""
        if self._used == self._first:
            return 1.0
        gains, doubts = self._judged(self._first)
        gain, doubt = float(gains[self._used]), margin * float(doubts[self._used])
        return min(1.0, max(0.0, gain / doubt)) if doubt > 0.0 else float(gain > 0.0)

    def _point(self, medians: Floats) -> float:
        first, used = float(medians[self._first]), float(medians[self._used])
        point = used if self._part >= 1.0 else first + self._part * (used - first)
        return float(round(point)) if self._whole else point

    def weights(self) -> Floats:
        """Of each forecaster in the average: the smaller its loss, the more."""
        losses = self.losses.sums[:-1]
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


def interval_score(low: float, high: float, value: float, miss: float) -> float:
    """Width, and for a value outside 2 / miss times how far; the lower the better."""
    return high - low + 2.0 / miss * (max(low - value, 0.0) + max(value - high, 0.0))


def new_tracker(
    series: Series,
    origin: int,
    names: Sequence[str],
    banded: int,
    lead: int,
) -> Tracker:
    """A tracker of these forecasters for a series of which `origin` is the first origin."""
    early = series.values[: origin + 1]
    floor = 0.0 if np.nanmin(early, initial=0.0) >= 0 else -math.inf
    first, bottom_up = 0, _bottom_up(series, names, lead)
    if bottom_up:
        first = list(names).index(bottom_up)
    elif IN_DOUBT in names and _seasonal(series, early, lead):
        first = list(names).index(IN_DOUBT)
    memory = min(MEMORY_S / series.step_s, MOST_MEMORY)
    whole = whole_numbers(early)
    return Tracker(len(names), banded, lead, memory, floor, first, origin, whole)


def _bottom_up(series: Series, names: Sequence[str], lead: int) -> str:
    """The one to trust first of a series that knows its parts; of others none."""
    far = series.day and lead * series.step_s > NEAR_S
    wanted = (FAR_BOTTOM_UP, BOTTOM_UP) if far else (BOTTOM_UP,)
    return next((each for each in wanted if series.parts and each in names), "")


def share(trackers: Sequence[Tracker]) -> Panel:
    """Let trackers of like series learn from each other."""
    first = trackers[0]
    panel = Panel(len(first.losses.sums), first.keep, first.lead)
    for each in trackers:
        each.panel = panel
    return panel


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
    nearly = NEARLY if len(early) >= LEAST_DAYS * back else 1.0 / NEARLY
    return bool(misses[0][known].sum() < nearly * misses[1][known].sum())
