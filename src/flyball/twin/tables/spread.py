"""Spreads of predicted run times: what the quantile knobs make of a job's estimate.

`state.spreads` holds a row per job: its predicted quantiles over its predicted median. The knobs
`order_quantile` and `backfill_quantile` choose a level; the ratio there is a factor on the job's
estimate, stated or predicted, so that the kernel needs no distribution. At 0.5 the factor is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from flyball.core.effects import Effects
from flyball.core.knobs import MEDIAN, Knobs
from flyball.core.records import Records
from flyball.core.workload import Workload
from flyball.predict.runtime.trees import LEVELS, MIDDLE

Floats = npt.NDArray[np.float64]

SCORES = np.array([NormalDist().inv_cdf(level) for level in LEVELS])
WIDEST = 1e4
"""Largest factor between a quantile and the median, either way."""


def run_times(quantiles: Floats, levels: Sequence[float], scores: Floats) -> Floats:
    """Return run times of jobs at these normal scores, a row per draw.

    The logarithm is normal between two quantiles; beyond the outermost ones the nearest interval
    is extended.

    Args:
        quantiles: a row per job, a column per level; above 0, not falling.
        levels: rising, at least two.
        scores: a row per draw, a column per job.
    """
    marks = np.array([NormalDist().inv_cdf(level) for level in levels])
    logs = np.log(np.maximum(quantiles, 1e-3))
    at = np.clip(np.searchsorted(marks, scores) - 1, 0, len(marks) - 2)
    column = np.arange(len(quantiles))
    low, high = logs[column, at], logs[column, at + 1]
    part = (scores - marks[at]) / (marks[at + 1] - marks[at])
    return np.asarray(np.exp(low + part * (high - low)), np.float64)


def spreads_of(workload: Workload, effects: Effects) -> Floats:
    """Return the predicted quantiles of each job over their median; no rows if all are certain.

    A job with a prediction has its quantiles; one whose estimate was drawn with an error has those
    of that error; any other has no spread.
    """
    drawn = np.isnan(workload.estimate_us) & (effects.estimate_sigma > 0)
    quantiles_us = workload.quantiles_us
    if quantiles_us is None and not drawn.any():
        return np.zeros((0, len(LEVELS)))
    spreads = np.ones((len(workload), len(LEVELS)))
    spreads[drawn] = np.exp(effects.estimate_sigma * SCORES)
    if quantiles_us is not None:
        predicted = np.isfinite(quantiles_us).all(axis=1)
        ratios = quantiles_us[predicted] / quantiles_us[predicted, MIDDLE, None]
        spreads[predicted] = np.maximum.accumulate(ratios, axis=1)
    return np.clip(spreads, 1.0 / WIDEST, WIDEST)


def set_stretches(jobs: Records, spreads: Floats, knobs: Knobs) -> None:
    """Set the factors on the jobs' estimates that the quantile knobs ask for."""
    jobs["order_stretch"] = _factors(spreads, knobs.order_quantile)
    jobs["backfill_stretch"] = _factors(spreads, knobs.backfill_quantile)


def _factors(spreads: Floats, level: float) -> Floats | float:
    if level == MEDIAN or not len(spreads):
        return 1.0
    scores = np.full((1, len(spreads)), NormalDist().inv_cdf(level))
    factors: Floats = np.clip(run_times(spreads, LEVELS, scores)[0], 1.0 / WIDEST, WIDEST)
    return factors
