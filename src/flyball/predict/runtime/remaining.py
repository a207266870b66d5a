"""How much longer will a running job take?

Two sources: the quantiles of its run time, of which those it has already outlived are struck out,
and the steps it reports, if it does. Steps win as soon as there are a few: a job that has done
300 of 1000 steps in an hour is known far better than any job of its kind.
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
"""Between quantiles, run times are taken as log-normal."""
ENOUGH_REPORTS = 3
"""Reports from which the speed of steps is believed."""
DRIFT = 0.1
"""Relative uncertainty of the speed of what is still to come, however steady it was so far."""
LEAST_TAIL = 0.3
"""Log units by which the tail grows at least, from the 75 % to the 95 % quantile."""


class Report(NamedTuple):
    """A job said it had done so many steps at that time."""

    time_s: float
    steps: float


@dataclass(frozen=True)
class Remaining:
    """Seconds still to go at each of `LEVELS`, and where that comes from."""

    seconds: Floats
    basis: str


def remaining(
    run_s: Floats, elapsed_s: float, reports: Sequence[Report] = (), total_steps: float = 0.0
) -> Remaining:
    """Quantiles of the time a job still runs.

    Args:
        run_s: quantiles of its whole run time, at `LEVELS`.
        elapsed_s: how long it has run.
        reports: what it said of its steps, in order of time.
        total_steps: how many there are in all; 0 = not stated.

    Raises:
        BadInput: a negative time, or quantiles that do not rise.
    """
    if not elapsed_s >= 0.0 or not np.all(np.diff(run_s) >= 0.0) or not np.all(run_s > 0.0):
        raise BadInput(f"{elapsed_s:g} s of {run_s.tolist()} s", "times are positive and rise")
    by_steps = _by_steps(reports, elapsed_s, total_steps)
    if by_steps is not None:
        return by_steps
    if elapsed_s == 0.0:
        return Remaining(run_s.copy(), "its predicted run time")
    left = _quantiles_above(run_s, elapsed_s) - elapsed_s
    return Remaining(left, f"run times above {elapsed_s:.0f} s")


def _by_steps(reports: Sequence[Report], elapsed_s: float, total_steps: float) -> Remaining | None:
    """From the speed of steps so far; None if too little was said."""
    if total_steps <= 0.0 or len(reports) < ENOUGH_REPORTS:
        return None
    time_s = np.array([each.time_s for each in reports])
    steps = np.array([each.steps for each in reports])
    gained, took_s = np.diff(steps), np.diff(time_s)
    moved = (gained > 0) & (took_s > 0)
    if np.count_nonzero(moved) < ENOUGH_REPORTS - 1:
        return None
    each_s = took_s[moved] / gained[moved]
    # The mean over the whole time, but half of it from the later half: jobs warm up.
    late = each_s[len(each_s) // 2 :]
    step_s = math.sqrt(float(np.sum(took_s[moved]) / np.sum(gained[moved])) * float(np.mean(late)))
    spread = float(np.std(np.log(each_s))) / math.sqrt(len(each_s))
    to_go = max(0.0, total_steps - float(steps[-1]))
    waited_s = max(0.0, elapsed_s - float(time_s[-1]))
    middle_s = max(to_go * step_s - waited_s, 0.0)
    left = middle_s * np.exp(math.hypot(spread, DRIFT) * np.array(SCORES))
    return Remaining(left, f"{steps[-1]:g} of {total_steps:g} steps at {step_s:.3g} s a step")


def _quantiles_above(run_s: Floats, elapsed_s: float) -> Floats:
    """Quantiles of the run time of those jobs that run longer than `elapsed_s`."""
    logs, now = np.log(run_s), math.log(max(elapsed_s, 1e-3))
    if now >= logs[-1]:  # a Pareto tail looks the same from everywhere in it
        return np.exp(now - _tail(logs) * np.log(1.0 - np.array(LEVELS)))
    below = NORMAL.cdf(float(np.interp(now, logs, SCORES, left=-math.inf)))
    parts = below + (1.0 - below) * np.array(LEVELS)
    made = np.array([_quantile(logs, part) for part in parts])
    return np.asarray(np.maximum(np.exp(made), elapsed_s), np.float64)


def _tail(logs: Floats) -> float:
    """Mean log units per halving-by-e of what is left above the last quantile (a Pareto tail)."""
    grown = max(float(logs[-1] - logs[-2]), LEAST_TAIL)
    return grown / math.log((1.0 - LEVELS[-2]) / (1.0 - LEVELS[-1]))


def _quantile(logs: Floats, part: float) -> float:
    if part > LEVELS[-1]:
        over = math.log((1.0 - LEVELS[-1]) / (1.0 - part))
        return float(logs[-1]) + _tail(logs) * over
    return float(np.interp(NORMAL.inv_cdf(part), SCORES, logs))
