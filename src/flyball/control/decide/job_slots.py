"""The record kept of each active job, and numbers for shapes of jobs that are alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.control.jobs.live_state import PREDICTION
from flyball.core.jobs import Job
from flyball.core.units import to_us
from flyball.predict.runtime.trees import LEVELS, MIDDLE

STEP = 0.1
"""Predictions are rounded to this step, in log units."""
QUANTILES = tuple(f"quantile{at}_us" for at in range(len(LEVELS)))
"""Fields of a job's predicted quantiles, in the order of `LEVELS`."""
NO_QUANTILES = (0.0,) * len(LEVELS)
SLOT = np.dtype(
    [
        ("id", "i8"),
        ("submit_us", "i8"),
        ("estimate_us", "f8"),
        ("limit_us", "i8"),
        ("priority", "f8"),
        ("service_us", "f8"),
        ("since_us", "i8"),
        ("queued_us", "i8"),
        ("cpu_milli", "i8"),
        ("host_mib", "i8"),
        ("array", "i8"),
        ("array_limit", "i8"),
        ("devices", "i4"),
        ("least", "i4"),
        ("most", "i4"),
        ("cap", "i4"),
        ("milli", "i4"),
        ("tenant", "i4"),
        ("user", "i4"),
        ("model", "i4"),
        ("kind", "i4"),
        ("pathway", "i4"),  # of its class; -1 = the cluster follows none
        ("attempt", "i4"),
        ("pools", "i8"),
        *((name, "f8") for name in QUANTILES),  # 0 = no prediction, or no knob reads them
        ("like", "i4"),
        ("used", "u1"),
    ]
)
_NAMES = SLOT.names or ()
SHAPE_VALUES = itemgetter(
    *map(
        _NAMES.index,
        (
            *("estimate_us", "limit_us", "priority", "cpu_milli", "host_mib", "array", "devices"),
            *("milli", "tenant", "user", "model", "kind", "least", "most", "pools"),
            *QUANTILES,
        ),
    )
)
"""Selects the fields that make up a shape: jobs equal in them differ only in submission time."""
SPARE = 10_000
"""Number of shapes without jobs that may be kept."""


class ShapeNumbers:
    """Assigns numbers to shapes: jobs alike have the same number.

    No decision depends on which number that is.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, values: tuple[Any, ...]) -> int:
        """Return the number of the shape with these values."""
        return self._numbers.setdefault(values, len(self._numbers))

    def too_many(self, jobs: int) -> bool:
        """Whether most shapes have no jobs any more."""
        return len(self._numbers) > 2 * jobs + SPARE

    def renumber(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """Forget all shapes but those of these jobs; return their new numbers."""
        self._numbers = {}
        return [self.number(values) for values in rows]


def expected_s(job: Job) -> float:
    """Return the run time that decisions assume; 0 = unknown.

    It is the owner's estimate, else the prediction from like jobs, else the limit.
    """
    if job.spec.estimate_s or PREDICTION not in job.values:
        return job.spec.estimate_s or job.spec.limit_s
    return _rounded(job.values[PREDICTION][1 + MIDDLE])


def predicted_us(job: Job, factor: float) -> tuple[float, ...]:
    """Return the predicted quantiles of a job's run time, times a factor; zeros if it has none."""
    if PREDICTION not in job.values:
        return NO_QUANTILES
    return tuple(to_us(_rounded(value) * factor) for value in job.values[PREDICTION][1:])


def quantiles_us(rows: Any) -> npt.NDArray[np.float64]:
    """Return the predicted quantiles of these slots, a row per job; NaN = no prediction."""
    table = np.stack([rows[name] for name in QUANTILES], axis=1)
    return np.where(table > 0.0, table, np.nan)


def _rounded(predicted_s: float) -> float:
    """Round a prediction, so that jobs alike keep the same shape.

    Of jobs of the same shape a decision can skip all but the first.
    """
    return math.exp(round(math.log(float(predicted_s)) / STEP) * STEP)
