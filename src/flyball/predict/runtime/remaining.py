"""Remaining run time of a running job.

There are two sources: the quantiles of its run time, conditional on the time it has already run,
and the steps it reports, if any. Steps take precedence once there are a few: 300 of 1000 steps in
an hour predict a job far better than other jobs like it do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.predict.runtime.trees import LEVELS

NORMAL = NormalDist()
SCORES = tuple(NORMAL.inv_cdf(level) for level in LEVELS)
"""Normal scores of `LEVELS`: between quantiles, run times are taken as log-normal."""
ENOUGH_REPORTS = 3
"""Least number of reports from which the speed of steps is used."""
DRIFT = 0.1
"""Relative uncertainty of the speed of the remaining steps, however steady it was so far."""
LEAST_TAIL = 0.3
"""Least growth of the tail from the 75 % to the 95 % quantile, in log units."""


class Report(NamedTuple):
    """Holds the number of steps that a job reported at a time."""

    time_s: float
    steps: float


@dataclass(frozen=True)
class Remaining:
    """Holds the remaining seconds at each of `LEVELS`, and their basis."""

    seconds: Floats
    basis: str


def remaining(
    run_s: Floats, elapsed_s: float, reports: Sequence[Report] = (), total_steps: float = 0.0
) -> Remaining:
    """Return quantiles of a job's remaining run time.

    Args:
        run_s: quantiles of its whole run time, at `LEVELS`.
        elapsed_s: how long it has run.
        reports: its reported steps, in order of time.
        total_steps: number of all steps; 0 = not stated.

    Raises:
        BadInput: a negative time, or quantiles that do not rise.
    """
    if not elapsed_s >= 0.0 or not np.all(np.diff(run_s) >= 0.0) or not np.all(run_s > 0.0):
        raise BadInput(
            f"{elapsed_s:g} s of {run_s.tolist()} s",
            "use 0 s or more, and rising quantiles above 0",
        )
    by_steps = _by_steps(reports, elapsed_s, total_steps)
    if by_steps is not None:
        return by_steps
    if elapsed_s == 0.0:
        return Remaining(run_s.copy(), "its predicted run time")
    left = _quantiles_above(run_s, elapsed_s) - elapsed_s
    return Remaining(left, f"run times above {elapsed_s:.0f} s")


def _by_steps(reports: Sequence[Report], elapsed_s: float, total_steps: float) -> Remaining | None:
    """Return the estimate from the speed of steps so far; None if there are too few reports."""
    if total_steps <= 0.0 or len(reports) < ENOUGH_REPORTS:
        return None
    time_s = np.array([report.time_s for report in reports])
    steps = np.array([report.steps for report in reports])
    gained, took_s = np.diff(steps), np.diff(time_s)
    moved = (gained > 0) & (took_s > 0)
    if np.count_nonzero(moved) < ENOUGH_REPORTS - 1:
        return None
    per_step_s = took_s[moved] / gained[moved]
    # Geometric mean of the speeds overall and in the later half, as jobs warm up.
    late = per_step_s[len(per_step_s) // 2 :]
    step_s = math.sqrt(float(np.sum(took_s[moved]) / np.sum(gained[moved])) * float(np.mean(late)))
    spread = float(np.std(np.log(per_step_s))) / math.sqrt(len(per_step_s))
    to_go = max(0.0, total_steps - float(steps[-1]))
    waited_s = max(0.0, elapsed_s - float(time_s[-1]))
    middle_s = max(to_go * step_s - waited_s, 0.0)
    left = middle_s * np.exp(math.hypot(spread, DRIFT) * np.array(SCORES))
    return Remaining(left, f"{steps[-1]:g} of {total_steps:g} steps at {step_s:.3g} s a step")


def _quantiles_above(run_s: Floats, elapsed_s: float) -> Floats:
    """Return quantiles of the run time of jobs that run longer than `elapsed_s`."""
    logs, now = np.log(run_s), math.log(max(elapsed_s, 1e-3))
    if now >= logs[-1]:  # a Pareto tail has the same shape from any point in it
        return np.exp(now - _tail(logs) * np.log(1.0 - np.array(LEVELS)))
    below = NORMAL.cdf(float(np.interp(now, logs, SCORES, left=-math.inf)))
    parts = below + (1.0 - below) * np.array(LEVELS)
    quantiles = np.array([_quantile(logs, part) for part in parts])
    return np.asarray(np.maximum(np.exp(quantiles), elapsed_s), np.float64)


def _tail(logs: Floats) -> float:
    """Return the log units per factor e of what is left above the last quantile (Pareto tail)."""
    grown = max(float(logs[-1] - logs[-2]), LEAST_TAIL)
    return grown / math.log((1.0 - LEVELS[-2]) / (1.0 - LEVELS[-1]))


def _quantile(logs: Floats, part: float) -> float:
    if part > LEVELS[-1]:
        over = math.log((1.0 - LEVELS[-1]) / (1.0 - part))
        return float(logs[-1]) + _tail(logs) * over
    return float(np.interp(NORMAL.inv_cdf(part), SCORES, logs))
