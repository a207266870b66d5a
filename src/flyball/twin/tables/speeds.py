"""Speeds that tuning needs: by number of devices and next to others, true and as guessed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster
from flyball.core.effects import Effects
from flyball.core.records import POINT, RANGE, Records, records
from flyball.core.workload import Workload
from flyball.twin.tables.curves import RIGID, curve_tables
from flyball.twin.tables.rates import Profiles

Floats = npt.NDArray[np.float64]


class Speeds(NamedTuple):
    """Holds tables of the state by their names there; `of_job` is the curve of each job."""

    ranges: Records
    points: Records
    guesses: Records
    of_job: npt.NDArray[np.int64]
    pairs: Floats
    pair_guesses: Floats


def speed_tables(
    workload: Workload, profiles: Profiles, cluster: Cluster, effects: Effects
) -> Speeds:
    """Return the tables for a workload; empty where an effect is off or no job can use it."""
    ranges, points = records(0, RANGE), records(0, POINT)
    of_job = np.full(len(workload), RIGID, np.int64)
    if effects.elastic and workload.most.any():
        ranges, points, of_job = curve_tables(
            profiles,
            cluster,
            workload.least,
            workload.most,
            effects.adaptive_batch,
            effects.network,
            effects.costs,
        )
    pairs, pair_guesses = np.zeros(0), np.zeros(0)
    if effects.share_limit > 1:
        from flyball.twin.tables.pairs import pair_table

        pairs, pair_guesses = pair_table(profiles, cluster, effects.speed_error, effects.seed)
    guesses = _guessed(ranges, points, len(cluster.groups), effects)
    return Speeds(ranges, points, guesses, of_job, pairs, pair_guesses)


def _guessed(ranges: Records, points: Records, pools: int, effects: Effects) -> Records:
    """Return the guesses of tuners: off by one factor per curve and pool, like a bad profile.

    Each number of devices adds an error half as large.
    """
    if not effects.speed_error or not len(points):
        return points
    rng = np.random.default_rng([effects.seed, 2])
    guesses = records(len(points), POINT)
    guesses[:] = points
    ends = np.append(ranges.first[1:], len(points))
    for first, end in zip(ranges.first, ends, strict=True):
        of_pool = rng.standard_normal(pools)
        of_size = rng.standard_normal((end - first) // pools)
        logs = effects.speed_error * (of_pool + 0.5 * of_size[:, None]) / np.sqrt(1.25)
        for name in ("packed", "spread"):
            guesses[name][first:end] *= np.exp(logs).reshape(-1)
    return guesses
