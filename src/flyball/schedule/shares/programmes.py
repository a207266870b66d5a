"""The two linear programmes of the share policies, solved with HiGHS.

Variables are x[g, p], the part of the time a job of group g runs in pool p. Always:

    sum over p of x[g, p] <= 1                            no job runs in two pools at once
    sum over g of jobs[g] * asks[g] * x[g, p] <= capacity[p]

Equal jobs (same asks, same speeds, same need) form one group and get the same part: the
solution of the programme with one variable set per job, averaged over equal jobs. Of several
best solutions the simplex method returns a corner; `optimum = centre` asks for their centre
(`centre.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from flyball.core.knobs import Optimum
from flyball.core.results import Floats, Ints
from flyball.schedule.shares.centre import Programme
from flyball.schedule.shares.groups import JobGroups


def max_min(
    groups: JobGroups, capacity: Floats, optimum: Optimum = Optimum.CORNER
) -> tuple[float, Floats]:
    """Return the shares that maximise the least of speed / need over the groups.

    Returns:
        (that least, shares by group and pool).
    """
    if optimum == Optimum.CENTRE:
        return Programme(groups, capacity, needs=groups.needs).solve()
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


def max_sum(
    groups: JobGroups, capacity: Floats, gains: Floats, optimum: Optimum = Optimum.CORNER
) -> Floats:
    """Return the shares that maximise the sum of gain x share; `gains` by group and pool."""
    weighed = gains / gains.max() * groups.jobs[:, None]
    if optimum == Optimum.CENTRE:
        return Programme(groups, capacity, gains=weighed).solve()[1]
    return _maximise(weighed.reshape(-1), groups, capacity, ()).reshape(groups.speeds.shape)


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
