"""The two linear programmes of the share policies, solved with HiGHS.

Variables are x[g, p], the part of the time a job of group g runs in pool p. Always:

    sum over p of x[g, p] <= 1                            no job runs in two pools at once
    sum over g of jobs[g] * asks[g] * x[g, p] <= capacity[p]

Equal jobs (same asks, same speeds, same need) form one group and get the same part: the
solution of the programme with one variable set per job, averaged over equal jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


def max_min(groups: JobGroups, capacity: Floats) -> tuple[float, Floats]:
    """Return the shares that maximise the least of speed / need over the groups.

    Returns:
        (that least, shares by group and pool).
    """
    count, pools = groups.speeds.shape
    best_speed = groups.speeds.max(axis=1)
    # For each group: need * least - sum of speed * x <= 0, the least being the last variable.
    at = np.arange(count)
    above = ConstraintRows(
        np.append(np.repeat(at, pools), at),
        np.append(np.arange(count * pools), np.full(count, count * pools)),
        np.append(-(groups.speeds / best_speed[:, None]), groups.needs / best_speed),
    )
    gains = np.zeros(count * pools + 1)
    gains[-1] = 1.0
    best = _maximise(gains, groups, capacity, (above,))
    return float(best[-1]), best[:-1].reshape(count, pools)


def max_sum(groups: JobGroups, capacity: Floats, gains: Floats) -> Floats:
    """Return the shares that maximise the sum of gain x share; `gains` by group and pool."""
    weighed = (gains / gains.max() * groups.jobs[:, None]).reshape(-1)
    return _maximise(weighed, groups, capacity, ()).reshape(groups.speeds.shape)


class ConstraintRows(NamedTuple):
    """Holds rows of a sparse matrix of constraints, each `<= 0` unless `limits` says otherwise."""

    rows: Ints
    columns: Ints
    values: Floats


def _maximise(
    gains: Floats, groups: JobGroups, capacity: Floats, further: tuple[ConstraintRows, ...]
) -> Floats:
    """Solve the programme: the shares above, and `further` rows of one per group."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    count, pools = groups.speeds.shape
    columns = np.arange(count * pools)
    once = ConstraintRows(np.repeat(np.arange(count), pools), columns, np.ones(count * pools))
    asked = np.repeat(groups.jobs * groups.asks, pools)
    room = ConstraintRows(np.tile(np.arange(pools), count), columns, asked)
    heights = (count, pools, *(count for _ in further))
    begins = np.cumsum((0, *heights))
    blocks = (once, room, *further)
    matrix = coo_matrix(
        (
            np.concatenate([block.values for block in blocks]),
            (
                np.concatenate(
                    [block.rows + first for block, first in zip(blocks, begins, strict=False)]
                ),
                np.concatenate([block.columns for block in blocks]),
            ),
        ),
        shape=(begins[-1], len(gains)),
    ).tocsr()
    limits = np.zeros(begins[-1])
    limits[:count], limits[count : count + pools] = 1.0, capacity
    most = np.full(len(gains), np.inf)
    most[: count * pools] = (groups.speeds > 0).reshape(-1)  # no share where it cannot run
    bounds = np.column_stack((np.zeros(len(gains)), most))
    result = linprog(-gains, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
    assert result.x is not None, f"the programme of shares has a solution: {result.message}"
    solution: Floats = np.maximum(0.0, result.x)
    return solution
