"""Patterns of a series: seasons, bursts, change points, drift.

These are plain statistics, cheap enough for every series of a cluster. A season is a peak of
the autocorrelation at the lag of an hour, day or week (or the best other lag) that also explains
variance out of sample; a burst is a run far above the local level; a change point is a shift of
the mean that saves more than its cost; drift is a slope that chance does not explain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats
from flyball.core.units import S_PER_DAY, S_PER_HOUR, S_PER_WEEK, duration_text
from flyball.predict.series import Series

NAMED_S = {"hour": S_PER_HOUR, "day": S_PER_DAY, "week": S_PER_WEEK}
LEAST_STRENGTH = 0.1
"""Least part of the variance that a season must explain."""
BURST_SPREADS = 6.0
MOST_BLOCKS = 400
"""Number of block means among which change points are searched."""
MOST_CHANGES = 12
COST = 4.0
"""Cost of a change point, in units of variance x log(blocks): pure noise shows one in hundreds of
runs."""


@dataclass(frozen=True)
class Season:
    """Holds a period, and the part of the variance its profile explains on later data."""

    period_s: float
    name: str
    strength: float


@dataclass(frozen=True)
class LoadBurst:
    """Holds a run of values far above the level around it."""

    start: int
    steps: int
    peak: float
    level: float


@dataclass(frozen=True)
class LevelChange:
    """Holds a shift of the mean at an index."""

    at: int
    before: float
    after: float


@dataclass(frozen=True)
class Patterns:
    """Holds all patterns of a series, and how regular it is.

    Attributes:
        zero_part: part of the known values that is 0.
        missing_part: part of the grid without a value.
        drift_per_day: slope of the last part after the last change point, 0 where chance can
            explain it.
    """

    seasons: tuple[Season, ...]
    bursts: tuple[LoadBurst, ...]
    changes: tuple[LevelChange, ...]
    drift_per_day: float
    zero_part: float
    missing_part: float
    constant: bool

    def sentences(self, step_s: float) -> list[str]:
        """Return a readable line for each pattern."""
        lines = [f"repeats every {season.name} ({season.strength:.0%})" for season in self.seasons]
        if self.bursts:
            top = max(self.bursts, key=lambda burst: burst.peak)
            lines.append(
                f"{len(self.bursts)} bursts, the highest {top.peak:g} over a level of "
                f"{top.level:.3g} for {duration_text(top.steps * step_s)}"
            )
        if self.changes:
            last = self.changes[-1]
            lines.append(
                f"{len(self.changes)} shifts of level, the last from {last.before:.3g} to "
                f"{last.after:.3g} at step {last.at:,}"
            )
        if self.drift_per_day:
            lines.append(f"drifts by {self.drift_per_day:+.3g} a day")
        if self.constant:
            lines.append("constant")
        elif self.zero_part > 0.3:
            lines.append(f"zero {self.zero_part:.0%} of the time")
        return lines or ["no pattern beyond chance"]


def find_patterns(series: Series) -> Patterns:
    """Return all patterns of one series."""
    values = series.filled
    present = series.values[np.isfinite(series.values)]
    missing = 1.0 - len(present) / max(len(series), 1)
    zero = float(np.mean(present == 0)) if len(present) else 0.0
    if len(present) < 8 or np.ptp(present) == 0:
        constant = len(present) > 0 and float(np.ptp(present)) == 0
        return Patterns((), (), (), 0.0, zero, missing, constant)
    changes = find_changes(values)
    return Patterns(
        find_seasons(values, series.step_s),
        find_bursts(values),
        changes,
        find_drift(values[changes[-1].at if changes else 0 :], series.step_s),
        zero,
        missing,
        False,
    )


# Seasons -----------------------------------------------------------------------


def find_seasons(values: Floats, step_s: float) -> tuple[Season, ...]:
    """Return the named periods that explain variance, else the best other period, if any."""
    seasons = []
    for name, period_s in NAMED_S.items():
        lag = round(period_s / step_s)
        if lag >= 2 and abs(lag * step_s - period_s) < 1e-6 * period_s:
            strength = season_strength(values, lag)
            if strength >= LEAST_STRENGTH:
                seasons.append(Season(period_s, name, strength))
    if seasons:
        return tuple(seasons)
    lag = _peak_lag(values)
    if lag and (strength := season_strength(values, lag)) >= LEAST_STRENGTH:
        return (Season(lag * step_s, duration_text(lag * step_s), strength),)
    return ()


def season_strength(values: Floats, lag: int) -> float:
    """Return the part of the second half's variance that the first half's profile explains."""
    half = len(values) // 2 // lag * lag
    if half < 2 * lag or len(values) - half < lag:
        return 0.0
    profile = values[:half].reshape(-1, lag).mean(axis=0)
    profile = profile - profile.mean()
    later = values[half:] - values[half:].mean()
    expected = profile[np.arange(len(later)) % lag]
    total = float(later @ later)
    return max(0.0, 1.0 - float(np.sum((later - expected) ** 2)) / total) if total else 0.0


def _peak_lag(values: Floats) -> int:
    """Return the lag of the highest autocorrelation after its first fall below 0; 0 = none."""
    centred = values - values.mean()
    size = 1 << (2 * len(values) - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(centred, size)) ** 2
    auto = np.fft.irfft(spectrum, size)[: len(values) // 3]
    below = np.nonzero(auto < 0)[0]
    if not len(below):
        return 0
    first = int(below[0])
    return first + int(np.argmax(auto[first:]))


# Bursts ------------------------------------------------------------------------


def find_bursts(values: Floats) -> tuple[LoadBurst, ...]:
    """Return runs that are above the median by many times the usual spread around it."""
    level = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - level))) or float(values.std()) / 2
    high = values > level + BURST_SPREADS * spread
    edges = np.diff(np.concatenate([[0], high.astype(int), [0]]))
    starts, stops = np.nonzero(edges == 1)[0], np.nonzero(edges == -1)[0]
    return tuple(
        LoadBurst(int(start), int(stop - start), float(values[start:stop].max()), level)
        for start, stop in zip(starts, stops, strict=True)
        if stop - start <= len(values) // 10  # a longer run is a level, not a burst
    )


# Change points -----------------------------------------------------------------


def find_changes(values: Floats) -> tuple[LevelChange, ...]:
    """Return change points by binary segmentation: split where it saves most, if above the cost."""
    width = max(1, -(-len(values) // MOST_BLOCKS))
    count = len(values) // width
    if count < 8:
        return ()
    means = values[: count * width].reshape(count, width).mean(axis=1)
    # Differences of neighbours contain noise and seasons but hardly the shifts themselves.
    noise = 1.4826 * float(np.median(np.abs(np.diff(means)))) / math.sqrt(2)
    cost = COST * max(noise, 1e-9 * float(np.ptp(means))) ** 2 * math.log(count)
    cuts: list[int] = []
    _split(means, 0, count, cost, cuts)
    edges = [0, *sorted(cuts), count]
    return tuple(
        LevelChange(
            edges[index] * width,
            float(means[edges[index - 1] : edges[index]].mean()),
            float(means[edges[index] : edges[index + 1]].mean()),
        )
        for index in range(1, len(edges) - 1)
    )


def _split(means: Floats, low: int, high: int, cost: float, cuts: list[int]) -> None:
    size = high - low
    if size < 8 or len(cuts) >= MOST_CHANGES:
        return
    part = means[low:high]
    sums = np.cumsum(part)
    left = np.arange(1, size)
    between = sums[:-1] / left - (sums[-1] - sums[:-1]) / (size - left)
    saved = left * (size - left) / size * between**2
    saved[:3] = saved[-3:] = 0.0  # a segment is more than a few blocks
    best = int(np.argmax(saved))
    if saved[best] <= cost * max(1.0, _dependence(part)):
        return
    cuts.append(low + best + 1)
    _split(means, low, low + best + 1, cost, cuts)
    _split(means, low + best + 1, high, cost, cuts)


def _dependence(part: Floats) -> float:
    """Return how much more sums vary than those of independent noise: (1 + r) / (1 - r)."""
    steps = np.diff(part)
    variance = float(np.var(steps))
    lagged = float(np.mean((steps[1:] - steps.mean()) * (steps[:-1] - steps.mean())))
    # Independent noise has -1/2 between neighbouring differences, a random walk 0, a trend more.
    correlation = min(0.9, max(0.0, 2.0 * lagged / variance + 1.0)) if variance else 0.0
    return (1.0 + correlation) / (1.0 - correlation)


# Drift -------------------------------------------------------------------------


def find_drift(values: Floats, step_s: float) -> float:
    """Return the change per day by the median slope of all pairs; 0 if its sign is unclear."""
    blocks = min(40, len(values) // 4)
    if blocks < 8:
        return 0.0
    width = len(values) // blocks
    means = values[: blocks * width].reshape(blocks, width).mean(axis=1)
    first, second = np.triu_indices(blocks, 1)
    rises = means[second] - means[first]
    # Mann-Kendall: pairs that rise minus pairs that fall, in standard deviations under chance.
    score = float(np.sign(rises).sum())
    chance = math.sqrt(blocks * (blocks - 1) * (2 * blocks + 5) / 18)
    if abs(score) < 3.3 * chance:
        return 0.0
    slope = float(np.median(rises / (second - first)))
    return slope / (width * step_s) * S_PER_DAY
