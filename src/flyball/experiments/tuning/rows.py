"""The rows of `flyball bench tune`: one figure each, with its interval and its bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from flyball.core.intervals import student_95

Row = dict[str, Any]


def tuning_row(
    case: str,
    load: float | str | None,
    baseline: str | None,
    metric: str,
    estimate: tuple[float, float, float],
    bar: float | None = None,
) -> Row:
    """Return a row.

    Args:
        case: what was run.
        load: of the cluster, or what stands for it; None = not a matter of load.
        baseline: what it is compared with.
        metric: name of the figure.
        estimate: value, low and high.
        bar: limit of the value; None = no bar.
    """
    value, low, high = estimate
    return {
        "case": case,
        "load": load,
        "baseline": baseline,
        "metric": metric,
        "value": value,
        "low": low,
        "high": high,
        "bar": bar,
    }


def mean_95(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean with its 95 % interval, which has no width for a single value."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, mean, mean
    half = student_95(count - 1) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return mean, mean - half, mean + half
