"""Intervals of what a policy changes on one recorded history: a bootstrap over blocks of jobs.

One history has no repetitions. Jobs that were submitted together share their fate, so blocks of
consecutive jobs are drawn with replacement, the same for both policies.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from flyball.core.metrics import ended
from flyball.core.results import Floats, Results
from flyball.core.units import US_PER_S

DRAWS = 1000
LEAST_BLOCKS = 8
"""With fewer blocks an interval would say nothing."""


class Change(NamedTuple):
    """The change of a mean in percent, with its 95 % interval (NaN where there is none)."""

    percent: float
    low: float
    high: float
    blocks: int


def change_of_completion(results: Results, base: Results, seed: int = 0) -> Change:
    """Return by how much the mean completion time changes against another run of the same jobs."""
    both = ended(results) & ended(base)
    ours, theirs = _completion_s(results)[both], _completion_s(base)[both]
    return change(ours, theirs, seed)


def change(ours: Floats, theirs: Floats, seed: int = 0) -> Change:
    """Return the change of a mean over the same jobs, in order of submission."""
    if not len(ours) or not theirs.sum():
        return Change(math.nan, math.nan, math.nan, 0)
    percent = 100 * (ours.sum() / theirs.sum() - 1)
    size = max(1, round(math.sqrt(len(ours))))
    starts = np.arange(0, len(ours), size)
    if len(starts) < LEAST_BLOCKS:
        return Change(float(percent), math.nan, math.nan, len(starts))
    our_sums, their_sums = np.add.reduceat(ours, starts), np.add.reduceat(theirs, starts)
    drawn = np.random.default_rng(seed).integers(0, len(starts), (DRAWS, len(starts)))
    ratios = our_sums[drawn].sum(axis=1) / their_sums[drawn].sum(axis=1)
    low, high = np.quantile(100 * (ratios - 1), (0.025, 0.975))
    return Change(float(percent), float(low), float(high), len(starts))


def text_of(change: Change) -> str:
    """Return `-41 % (-48 to -33)`."""
    if not math.isfinite(change.percent):
        return "-"
    interval = ""
    if math.isfinite(change.low):
        interval = f" ({change.low:+.0f} to {change.high:+.0f})"
    return f"{change.percent:+.0f} %{interval}"


def _completion_s(results: Results) -> Floats:
    return (results.end_us - results.submit_us) / US_PER_S
