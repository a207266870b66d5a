"""Baseline guesses without training, each used by many schedulers.

All are read from the same history as the trees, so they have the same information.
"""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from flyball.core.results import Floats
from flyball.predict.runtime.history import LEVELS, History
from flyball.predict.runtime.rows import Asked

NAMES = ("recent two", "recent median", "table", "median")


def guesses(asked: Asked, history: History) -> tuple[float, ...]:
    """Return log run times, in the order of `NAMES`; NaN while nothing has ended.

    Recent two: the mean run time of the last two jobs that ended in the nearest group. Recent
    median: the median of the latest jobs of that group. Table: its slow mean. Median: the median of
    the latest jobs of all groups.
    """
    groups = history.groups(asked)
    near = next((g for level in reversed(LEVELS) if (g := groups[level]) and g.finished), None)
    everyone = groups["all"]
    if near is None or everyone is None:
        return (math.nan,) * len(NAMES)
    last_two_s = [math.exp(job.log_s) for job in list(near.finished)[-2:]]
    return (
        math.log(sum(last_two_s) / len(last_two_s)),
        median(job.log_s for job in near.finished),
        near.mean(1, math.nan),
        median(job.log_s for job in everyone.finished),
    )


def filled(values: Floats, fallback: float) -> Floats:
    """Return the values with `fallback` in place of NaN."""
    result = values.copy()
    result[np.isnan(result)] = fallback
    return result
