"""Selects a forecaster at every step by the recent losses of all.

A `Tracker` follows one series at one lead. Each outcome adds to the decayed loss of every
forecaster; the best one is used, or the average weighted by their losses where that has done
better. Another takes over only if it is better by more than chance explains (`ledger.py`), with a
larger margin while the history is short; as its advantage fades, the point moves back to the
default forecaster. Points are chosen by absolute error, the mean by squared error, the band by its
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
from flyball.core.units import S_PER_DAY
from flyball.predict.calibrate import GAIN, WINDOW, Band
from flyball.predict.ledger import Ledger, Panel, better
from flyball.predict.load.contract import NEAR_S
from flyball.predict.series import Series, whole_numbers

COVERS = (0.9, 0.8, 0.5)
"""Nominal coverages of the calibrated bands; with the median they give the levels."""
AVERAGE = "average"
MARGIN = 1.5
"""Number of standard errors by which another must have done better to take over."""
SHORT = 25.0
"""History length, in leads, that doubles the margin: a fit on few leads has seen few situations,
and its first successes prove little."""
SHARPNESS = 25.0
"""How fast a forecaster's weight in the average falls with its loss relative to the best."""
SLOWEST = 0.1
SPANS = 28
"""Least number of leads in the window of a band: closer outcomes are correlated."""
MEMORY_S = 4 * S_PER_DAY
"""Half-life of a loss, or `LEADS_KEPT` leads if that is longer."""
LEADS_KEPT = 28.0
MOST_MEMORY = 6_000.0
"""Longest half-life of a loss in steps, for series with steps of milliseconds."""
PANEL = 10.0
"""Weight of the rest of the panel, as a number of outcomes a lead apart: a series with fewer
outcomes is judged mostly by how the forecasters do on the others."""
BOTTOM_UP, FAR_BOTTOM_UP = "parts", "parts+changes+same-time"
"""Default forecasters of a series with parts, up to `NEAR_S` ahead and beyond."""
SEASONAL = "yesterday+smoothing+linear"
"""Default forecaster of a seasonal series; the last value is the default of all others."""
NEARLY = 1.25
"""A series is seasonal if the error of yesterday has been at most this many times that of the last
value: averaging makes up for that much."""
LEAST_DAYS = 14
"""Days of history below which no week has repeated: yesterday must then have been better by
`NEARLY`."""


class ForecastOffer(NamedTuple):
    """Holds the forecasts at one origin, one row per forecaster."""

    medians: Floats
    means: Floats
    bounds: list[list[tuple[float, float]]]
    """Low and high for each of `COVERS`, per forecaster that offers bands."""


class Choice(NamedTuple):
    """Holds the published forecast."""

    median: float
    mean: float
    quantiles: list[float]
    bands: list[tuple[float, float]]
    """Calibrated 90 % band of each forecaster that offers one."""
    used: int
    band_of: int


@dataclass
class _Open:
    """Holds a forecast whose outcome is not known yet."""

    medians: Floats
    means: Floats
    bounds: list[list[tuple[float, float]]]
    calibrated: list[list[tuple[float, float]]]
    """Calibrated bounds; for the chosen band, those that were published."""


class Tracker:
    """Chooses among forecasters for one series at one lead.

    Args:
        points: number of forecasters that offer points.
        banded: number of forecasters that offer bands.
        lead: steps until an outcome is known.
        memory: half-life of a loss, in steps.
        floor: least possible value.
        first: index of the default forecaster.
        history: steps of history so far.
        integral: whether the values, and so their median, are whole numbers.

    Attributes:
        panel: losses shared with trackers of like series; None = not shared.
    """

    def __init__(
        self,
        points: int,
        banded: int,
        lead: int,
        memory: float,
        floor: float = -math.inf,
        first: int = 0,
        history: int = 0,
        integral: bool = False,
    ) -> None:
        self.panel: Panel | None = None
        self._history, self._integral = history, integral
        # Outcomes come a lead late: a large gain would swing between too wide and too narrow.
        gain = min(GAIN, SLOWEST / lead)
        window = max(WINDOW, SPANS * lead)
        self.bands = [[Band(cover, gain, window) for cover in COVERS] for _ in range(banded)]
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
        """Number of forecasts without an outcome so far."""
        return len(self._open)

    def propose(self, offer: ForecastOffer) -> Choice:
        """Choose among the offered forecasts, and remember them until the outcome is known."""
        weights = self.weights()
        medians = np.append(offer.medians, weights @ offer.medians)
        means = np.append(offer.means, weights @ offer.means)
        corrected = [
            [self._floored(band.bounds(*pair)) for band, pair in zip(bands, bounds, strict=True)]
            for bands, bounds in zip(self.bands, offer.bounds, strict=True)
        ]
        median = self._point(medians)
        chosen = corrected[self._band_of]
        lows = [min(pair[0], median) for pair in chosen]
        highs = [max(pair[1], median) for pair in chosen]
        for wider in (1, 0):  # a wider band contains the narrower one
            lows[wider] = min(lows[wider], lows[wider + 1])
            highs[wider] = max(highs[wider], highs[wider + 1])
        choice = Choice(
            median,
            float(means[self._mean_of]),
            [*lows, median, *reversed(highs)],
            [pairs[0] for pairs in corrected],
            self._used,
            self._band_of,
        )
        corrected[self._band_of] = list(zip(lows, highs, strict=True))
        self._open.append(_Open(medians, means, offer.bounds, corrected))
        return choice

    def learn(self, value: float) -> None:
        """Learn the outcome of the oldest open forecast; NaN = it will never be known."""
        past = self._open.popleft()
        self._history += 1
        if not math.isfinite(value):
            return
        errors = np.abs(past.medians - value)
        self.losses.add(errors)
        self.squares.add((past.means - value) ** 2)
        scores = np.empty(len(self.bands))
        for index, bands in enumerate(self.bands):
            offered, calibrated = past.bounds[index], past.calibrated[index]
            for band, pair, corrected in zip(bands, offered, calibrated, strict=True):
                band.learn(*pair, corrected, value)
            scores[index] = interval_score(*calibrated[0], value, 1.0 - COVERS[0])
        self.scores.add(scores)
        margin = MARGIN * (1.0 + SHORT * self.lead / (self._history + 1))
        if self.panel is not None:
            self.panel.note(errors)
        self._used = self._best_point(self._used, margin)
        self._part = self._departure(margin)
        self._mean_of = self.squares.better(self._mean_of, margin)
        # Every band is calibrated: a wrong choice costs width, not coverage.
        self._band_of = self.scores.better(self._band_of, MARGIN)

    def _best_point(self, used: int, margin: float) -> int:
        """Return the best by gain over the one in use, on this series and on the panel."""
        if self.panel is None:
            return self.losses.better(used, margin)
        return better(*self._judged(used), margin, used)

    def _judged(self, used: int) -> tuple[Floats, Floats]:
        """Return gains over the one in use and their standard errors, shrunk to the panel's."""
        gains, doubt = self.losses.judged(used)
        own_loss = float(self.losses.sums[used])
        panel_loss = 0.0 if self.panel is None else float(self.panel.sums[used])
        if self.panel is None or min(own_loss, panel_loss) <= 0.0:
            return gains, doubt
        panel_gains, panel_doubt = self.panel.judged(used)
        part = PANEL / (self.losses.count(used) + PANEL)
        drawn = (1.0 - part) * gains / own_loss + part * panel_gains / panel_loss
        return drawn, np.hypot((1.0 - part) * doubt / own_loss, part * panel_doubt / panel_loss)

    def _departure(self, margin: float) -> float:
        """Return how far to move from the default forecaster to the one in use.

        It is 1 while that one is better beyond chance, and less as its advantage fades.
        """
        if self._used == self._first:
            return 1.0
        gains, doubts = self._judged(self._first)
        gain, doubt = float(gains[self._used]), margin * float(doubts[self._used])
        return min(1.0, max(0.0, gain / doubt)) if doubt > 0.0 else float(gain > 0.0)

    def _point(self, medians: Floats) -> float:
        first, used = float(medians[self._first]), float(medians[self._used])
        point = used if self._part >= 1.0 else first + self._part * (used - first)
        return float(round(point)) if self._integral else point

    def weights(self) -> Floats:
        """Return the weight of each forecaster in the average: the smaller its loss, the larger."""
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
    """Return the width, plus 2 / miss times how far a value lies outside; lower is better."""
    return high - low + 2.0 / miss * (max(low - value, 0.0) + max(value - high, 0.0))


def new_tracker(
    series: Series,
    origin: int,
    names: Sequence[str],
    banded: int,
    lead: int,
) -> Tracker:
    """Return a tracker of these forecasters for a series whose first origin is `origin`."""
    early = series.values[: origin + 1]
    floor = 0.0 if np.nanmin(early, initial=0.0) >= 0 else -math.inf
    first, bottom_up = 0, _bottom_up(series, names, lead)
    if bottom_up:
        first = list(names).index(bottom_up)
    elif SEASONAL in names and _seasonal(series, early, lead):
        first = list(names).index(SEASONAL)
    memory = min(MEMORY_S / series.step_s, MOST_MEMORY)
    integral = whole_numbers(early)
    return Tracker(len(names), banded, lead, memory, floor, first, origin, integral)


def _bottom_up(series: Series, names: Sequence[str], lead: int) -> str:
    """Return the default forecaster of a series that has parts, "" for others."""
    far = series.day and lead * series.step_s > NEAR_S
    preferred = (FAR_BOTTOM_UP, BOTTOM_UP) if far else (BOTTOM_UP,)
    return next((name for name in preferred if series.parts and name in names), "")


def share(trackers: Sequence[Tracker]) -> Panel:
    """Let trackers of like series learn from each other."""
    first = trackers[0]
    panel = Panel(len(first.losses.sums), first.keep, first.lead)
    for tracker in trackers:
        tracker.panel = panel
    return panel


def _seasonal(series: Series, early: Floats, lead: int) -> bool:
    """Return whether the same time of the last day was nearly as good as the last value.

    A whole day ahead the two are the same, so they are compared at most a quarter of a day ahead.
    """
    back = series.day
    if not back or len(early) < 2 * back:
        return False
    lead = min(lead, max(1, back // 4))
    target, same_time, last = early[back:], early[:-back], early[back - lead : -lead]
    misses = np.abs(target - same_time), np.abs(target - last)
    is_known = np.isfinite(misses[0]) & np.isfinite(misses[1])
    nearly = NEARLY if len(early) >= LEAST_DAYS * back else 1.0 / NEARLY
    return bool(misses[0][is_known].sum() < nearly * misses[1][is_known].sum())
