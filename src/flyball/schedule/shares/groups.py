"""Groups of equal jobs: programmes of shares need one set of variables for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats, Ints

BUCKET = 0.01
"""Relative width within which needs of one shape are rounded up to the same value."""
MANY = 200
"""Number of jobs up to which needs are not rounded."""


@dataclass(frozen=True)
class JobGroups:
    """Holds groups of equal jobs, and the group of each job."""

    jobs: Floats  # number of jobs in each group
    asks: Floats
    speeds: Floats
    needs: Floats
    of_job: Ints


def group(asks: Floats, speeds: Floats, needs: Floats | None = None) -> JobGroups:
    """Group jobs by what they ask for, how fast they run and what they need."""
    needs = np.ones(len(asks)) if needs is None else needs
    if len(asks) > MANY:
        needs = np.exp(np.ceil(np.log(needs) / BUCKET) * BUCKET)
    rows = np.column_stack((asks, needs, speeds))
    _, first, of_job, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return JobGroups(
        counts.astype(np.float64), asks[first], speeds[first], needs[first], of_job.reshape(-1)
    )
