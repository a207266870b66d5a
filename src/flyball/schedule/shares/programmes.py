"""The two linear programmes of the share policies, solved with HiGHS.

Variables are x[g, p], the part of the time a job of group g runs in pool p. Always:

    sum over p of x[g, p] <= 1                            nobody runs in two places at once
    sum over g of jobs[g] * asks[g] * x[g, p] <= capacity[p]

Jobs that look alike (same asks, same speeds, same need) form one group and get the same
part: the solution of the programme with every job on its own, averaged over equal jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flyball.core.results import Floats, Ints

BUCKET = 0.01
"""Needs of one shape that differ by less than this count as equal (the larger one)."""
MANY = 200
"""With so many jobs or fewer, every need counts as it is."""


@dataclass(frozen=True)
class Groups:
    """Jobs that look alike, and which job is in which group."""

    jobs: Floats  # how many in each
    asks: Floats
    speeds: Floats
    needs: Floats
    of_job: Ints


def group(asks: Floats, speeds: Floats, needs: Floats | None = None) -> Groups:
    """Group jobs by what they ask for, how fast they run and what they need."""
    needs = np.ones(len(asks)) if needs is None else needs
    if len(asks) > MANY:
        needs = np.exp(np.ceil(np.log(needs) / BUCKET) * BUCKET)
    rows = np.column_stack((asks, needs, speeds))
    _, first, of_job, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    return Groups(
        counts.astype(np.float64), asks[first], speeds[first], needs[first], of_job.reshape(-1)
    )


def max_min(groups: Groups, capacity: Floats) -> tuple[float, Floats]:
    """Shares that maximise the least of speed / need over the groups.

    Returns:
        (that least, shares by group and pool).
    """
    count, pools = groups.speeds.shape
    best_speed = groups.speeds.max(axis=1)
    # For each group: need * least - sum of speed * x <= 0, the least being the last variable.
    at = np.arange(count)
    above = Block(
        np.append(np.repeat(at, pools), at),
        np.append(np.arange(count * pools), np.full(count, count * pools)),
        np.append(-(groups.speeds / best_speed[:, None]), groups.needs / best_speed),
    )
    gains = np.zeros(count * pools + 1)
    gains[-1] = 1.0
    best = _maximise(gains, groups, capacity, (above,))
    return float(best[-1]), best[:-1].reshape(count, pools)


def max_sum(groups: Groups, capacity: Floats, gains: Floats) -> Floats:
    """Shares that maximise the sum of gain x share over all jobs; `gains` by group and pool."""
    weighed = (gains / gains.max() * groups.jobs[:, None]).reshape(-1)
    return _maximise(weighed, groups, capacity, ()).reshape(groups.speeds.shape)


class Block(NamedTuple):
    """Rows of a sparse matrix, each `<= 0` unless said otherwise."""

    rows: Ints
    columns: Ints
    values: Floats


def _maximise(
    gains: Floats, groups: Groups, capacity: Floats, further: tuple[Block, ...]
) -> Floats:
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    count, pools = groups.speeds.shape
    columns = np.arange(count * pools)
    once = Block(np.repeat(np.arange(count), pools), columns, np.ones(count * pools))
    asked = np.repeat(groups.jobs * groups.asks, pools)
    room = Block(np.tile(np.arange(pools), count), columns, asked)
    heights = (count, pools, *(count for _ in further))
    begins = np.cumsum((0, *heights))
    blocks = (once, room, *further)
    matrix = coo_matrix(
        (
            np.concatenate([each.values for each in blocks]),
            (
                np.concatenate([each.rows + at for each, at in zip(blocks, begins, strict=False)]),
                np.concatenate([each.columns for each in blocks]),
            ),
        ),
        shape=(begins[-1], len(gains)),
    ).tocsr()
    limits = np.zeros(begins[-1])
    limits[:count], limits[count : count + pools] = 1.0, capacity
    most = np.full(len(gains), np.inf)
    most[: count * pools] = (groups.speeds > 0).reshape(-1)  # nothing where it cannot run
    bounds = np.column_stack((np.zeros(len(gains)), most))
    found = linprog(-gains, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs")
    assert found.x is not None, f"the programme of shares has a solution: {found.message}"
    solution: Floats = np.maximum(0.0, found.x)
    return solution
