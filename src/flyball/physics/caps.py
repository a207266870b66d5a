"""Chooses power caps: least node energy for the same work, within a limit on time.

A cap slows a job, and the host draws power for as long as the job runs. So the energy of the node
is minimised: time factor x (the device's draw under the cap + its share of the host).

The choice has one dimension per job and `CAP_LEVELS` values, so it is searched exactly; a projected
gradient on the same curve ends at the same cap, rounded to a level. A budget for the whole cluster
couples the jobs: the search then follows the gradient, level by level, where a watt costs least
time.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from flyball.core.results import Floats, Ints

HOST_SHARE = 0.25
"""Default share of the host in a node's draw: the host draws one third of what its devices do."""


def host_of(draw_w: float, host_share: float = HOST_SHARE) -> float:
    """Return the watts of the host that go with a device of this draw."""
    return draw_w * host_share / (1.0 - host_share)


def node_energy(time: Floats, power: Floats, draw_w: Floats, host_w: Floats) -> Floats:
    """Return the energy of device and host for the same work, relative to that without a cap.

    Args:
        time: factor on time.
        power: factor on the device's draw.
        draw_w: the device without a cap.
        host_w: its share of the host.
    """
    return np.asarray(time * (draw_w * power + host_w) / (draw_w + host_w))


def best_level(time: Floats, energy: Floats, most_time: Floats | float) -> Ints:
    """Return the level of least energy whose time factor is allowed; ties: the weaker cap.

    Level 0, no cap, is always allowed.

    Args:
        time: factors, a row per job and a column per level.
        energy: likewise.
        most_time: the largest time factor allowed, one for all or one per job.
    """
    allowed = time <= np.reshape(most_time, (-1, 1)) + 1e-12
    allowed[:, 0] = True
    return np.asarray(np.where(allowed, energy, np.inf).argmin(axis=1))


class Ladder(NamedTuple):
    """Draw and time factor at each cap level: a row per job, a column per level.

    Attributes:
        watts: drawn, falling along a row.
        time: factor on time, rising along a row.
        weight: work per second of each job without a cap.
    """

    watts: Floats
    time: Floats
    weight: Floats


def fit_budget(ladder: Ladder, levels: Ints, most_w: float) -> tuple[Ints, float]:
    """Strengthen caps where a watt costs least work, until all jobs draw at most `most_w`.

    Args:
        ladder: of the jobs.
        levels: to begin with; none is lowered.
        most_w: for all of them together.

    Returns:
        The levels, and the work per second they cost. The strongest caps if even those draw more.
    """
    levels = levels.copy()
    rows = np.arange(len(levels))
    total = float(ladder.watts[rows, levels].sum())
    heap = [step for job in rows for step in _step(ladder, int(job), int(levels[job]))]
    heapq.heapify(heap)
    lost = 0.0
    while total > most_w and heap:
        price, job, level = heapq.heappop(heap)
        saved = float(ladder.watts[job, levels[job]] - ladder.watts[job, level])
        total -= saved
        lost += price * saved
        levels[job] = level
        for step in _step(ladder, job, level):
            heapq.heappush(heap, step)
    return levels, lost


def _step(ladder: Ladder, job: int, level: int) -> list[tuple[float, int, int]]:
    """Return the cheapest stronger cap of a job: (work lost per watt, job, level); none at the end.

    It may skip levels, where a curve is not convex.
    """
    watts, time = ladder.watts[job], ladder.time[job]
    saved = watts[level] - watts[level + 1 :]
    lost = ladder.weight[job] * (1.0 / time[level] - 1.0 / time[level + 1 :])
    useful = np.flatnonzero(saved > 1e-9)
    if not len(useful):
        return []
    prices = lost[useful] / saved[useful]
    best = int(prices.argmin())
    return [(float(prices[best]), job, level + 1 + int(useful[best]))]


def steepened(mine: Floats, all_of_them: Floats, weight: float) -> Floats:
    """Return the time curve of jobs of a kind: the shape of all jobs, with the kind's steepness.

    With `g` the mean over all jobs of ln(time factor) by level, the curve of a kind is taken as
    `exp(k g)`; k is fitted by least squares to the curves of the kind, drawn towards 1.

    Args:
        mine: measured time factors of jobs of the kind, a row each; may be empty.
        all_of_them: measured time factors of all jobs, a row each.
        weight: how many rows the value 1 counts for.

    Returns:
        Time factors by level, never falling from one level to the next.
    """
    shape = np.maximum(np.log(all_of_them).mean(axis=0), 0.0)
    square = max(float(shape @ shape), 1e-12)
    product = float((np.log(mine) @ shape).sum())
    steepness = (product + weight * square) / ((len(mine) + weight) * square)
    return np.asarray(np.exp(np.maximum.accumulate(max(steepness, 0.0) * shape)))


def blend(mine: Floats, all_of_them: Floats, weight: float) -> Floats:
    """Return the mean curve of jobs of a kind, drawn towards that of all jobs.

    Args:
        mine: measured curves of jobs of the kind, a row each; may be empty.
        all_of_them: measured curves of all jobs, a row each.
        weight: how many rows the mean of all counts for.
    """
    return np.asarray((mine.sum(axis=0) + weight * all_of_them.mean(axis=0)) / (len(mine) + weight))
