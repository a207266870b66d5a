"""Confidence intervals of means, and of differences paired by seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

NORMAL_95 = 1.959963984540054
"""Two-sided 95 % point of the normal distribution."""
STUDENT_SUMS = 300
"""Degrees of freedom up to which Student's t is computed as a finite sum, else by its expansion."""


@cache
def student_95(freedom: int) -> float:
    """Return the two-sided 95 % point of Student's t distribution, the 0.975 quantile.

    The 95 % confidence interval of the mean of n values is mean +- student_95(n - 1) s / sqrt(n),
    with s their standard deviation (ddof=1). Accurate to 1e-11, without scipy, which this package
    does not import.

    Args:
        freedom: degrees of freedom; NaN below 1.
    """
    if freedom < 1:
        return math.nan
    if freedom > STUDENT_SUMS:
        return _student_expansion(freedom)
    low, high = 0.0, math.pi / 2
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _student_within(freedom, middle) < 0.95 else (low, middle)
    return math.sqrt(freedom) * math.tan(high)


def _student_within(freedom: int, angle: float) -> float:
    """Return P(|T| < sqrt(freedom) tan(angle)): Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    odd = freedom % 2
    power = math.cos(angle) if odd else 1.0
    total = 0.0
    for step in range(1 + odd, freedom, 2):
        total += power
        power *= math.cos(angle) ** 2 * step / (step + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def _student_expansion(freedom: int) -> float:
    """Return the same point by its expansion in 1 / freedom: Abramowitz and Stegun, 26.7.5."""
    z = NORMAL_95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return sum(term / float(freedom**order) for order, term in enumerate(terms))


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean of a - b over seeds with its 95 % confidence interval: (mean, low, high).

    The i-th values of both must come from the same seed. With one pair the interval is
    unknown (NaN); with none, so is the mean.
    """
    gaps = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if not len(gaps):
        return math.nan, math.nan, math.nan
    mean = float(gaps.mean())
    if len(gaps) == 1:
        return mean, math.nan, math.nan
    half = student_95(len(gaps) - 1) * float(gaps.std(ddof=1)) / math.sqrt(len(gaps))
    return mean, mean - half, mean + half
