"""Smooths series of samples and computes features of them.

Pure functions over arrays of times (seconds, ascending) and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from flyball.core.results import Floats

WINDOWS_S = (1.0, 10.0, 60.0)
BURST = 3.0
"""A burst is a value this many deviations above its window's mean."""
QUIET = 0.05
"""The deviation counts as at least this share of the mean, so that noise makes no burst."""
MOST_WIDE = 501
"""Maximum number of samples in the window of a median."""
MOST_AT_ONCE = 1 << 20
"""Maximum number of values in one call of np.median, which copies them."""


class Features(NamedTuple):
    """Features of one series over one window that ends at the last sample.

    Attributes:
        slope: by least squares, in units of the value per second.
        burst: whether the last tenth of the window is far above the rest of it.
    """

    window_s: float
    samples: int
    mean: float
    std: float
    p95: float
    slope: float
    burst: bool


def smoothed(times_s: Floats, values: Floats, how: str, window_s: float) -> Floats:
    """Return a smoothed series, by `none`, `mean`, `median` or `exponential`.

    Args:
        window_s: window of the mean and the median, and half-life of the exponential average. A
            median is over the number of samples in it at their median interval, at most 501.
    """
    if how == "none" or len(values) < 2:
        return values
    if how == "mean":
        return rolling_mean(times_s, values, window_s)
    if how == "exponential":
        return exponential(times_s, values, window_s)
    assert how == "median", how
    period_s = max(float(np.median(np.diff(times_s))), 1e-6)
    return median_filter(values, int(min(MOST_WIDE, max(1.0, round(window_s / period_s)))))


def rolling_mean(times_s: Floats, values: Floats, window_s: float) -> Floats:
    """Return, for each time, the mean of the samples of the last `window_s`."""
    first = np.searchsorted(times_s, times_s - window_s, side="right")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    means: Floats = (sums[last] - sums[first]) / (last - first)
    return means


def median_filter(values: Floats, width: int = 5) -> Floats:
    """Replace each value by the median of the last `width`: outliers vanish, steps stay."""
    if width <= 1 or len(values) == 0:
        return values
    padded = np.concatenate([np.full(width - 1, values[0]), values])
    windows = sliding_window_view(padded, width)
    # np.median copies the windows: in batches, as those of an hour would take gigabytes.
    rows = max(1, MOST_AT_ONCE // width)
    return np.concatenate(
        [np.median(windows[at : at + rows], axis=1) for at in range(0, len(windows), rows)]
    )


def exponential(times_s: Floats, values: Floats, half_life_s: float) -> Floats:
    """Return the exponential average with this half-life, for any sampling interval."""
    smooth = np.array(values, np.float64)
    for at in range(1, len(smooth)):
        weight = 0.5 ** ((times_s[at] - times_s[at - 1]) / half_life_s)
        smooth[at] = weight * smooth[at - 1] + (1.0 - weight) * values[at]
    return smooth


def rate(times_s: Floats, totals: Floats) -> tuple[Floats, Floats]:
    """Return a total's change per second between samples; a drop means that it restarted at 0."""
    spans, moves = np.diff(times_s), np.diff(totals)
    moves = np.where(moves < 0, totals[1:], moves)
    good = spans > 0
    return times_s[1:][good], moves[good] / spans[good]


def features(
    times_s: Floats, values: Floats, windows_s: Sequence[float] = WINDOWS_S
) -> list[Features]:
    """Return the features over each window, all ending at the last sample."""
    return [_over(times_s, values, window_s) for window_s in windows_s]


def _over(times_s: Floats, values: Floats, window_s: float) -> Features:
    if len(times_s) == 0:
        return Features(window_s, 0, np.nan, np.nan, np.nan, np.nan, False)
    inside = times_s > times_s[-1] - window_s
    times, seen = times_s[inside] - times_s[-1], values[inside]
    mean, std = float(np.mean(seen)), float(np.std(seen))
    centred = times - times.mean()
    spread = float(centred @ centred)
    slope = float(centred @ seen) / spread if spread > 0 else 0.0
    p95 = float(np.percentile(seen, 95))
    return Features(window_s, len(seen), mean, std, p95, slope, _bursts(times, seen, window_s))


def _bursts(times: Floats, seen: Floats, window_s: float) -> bool:
    recent = times > -window_s / 10
    before = seen[~recent]
    if len(before) < 2:
        return False
    mean = float(before.mean())
    margin = BURST * max(float(before.std()), QUIET * abs(mean))
    return bool(seen[recent].mean() > mean + margin and margin > 0)
