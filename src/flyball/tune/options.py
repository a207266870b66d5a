"""Where jobs could run, on how many devices, and what that is worth: as far as it is known.

Jobs alike (the same shape and curve) form a kind and have the same options. Speeds are the
state's guesses times what was learned since, never the true curves; the value of an option is
reference device-seconds of work a second.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flyball.core.grouping import group_rows
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
"""Numbers of devices an elastic job is offered: those that leave no odd rest on nodes."""


@dataclass(frozen=True)
class Options:
    """Where the jobs of each kind could run, with how many devices, and what that is worth.

    Attributes:
        jobs: the active jobs that may be placed, ascending.
        of_job: the kind of each.
        begin: first option of each kind, and the number of all.
        kind, pool, count: of each option.
        rate: progress per microsecond, packed, as far as it is known.
        value: reference device-seconds a second.
        watts: what the option draws, its share of the hosts included.
        length_s: estimated run time as asked for, the mean of each kind.
    """

    jobs: Ints
    of_job: Ints
    begin: Ints
    kind: Ints
    pool: Ints
    count: Ints
    rate: Floats
    value: Floats
    watts: Floats
    length_s: Floats

    @classmethod
    def of(cls, state: State, active: Ints, eta: float) -> Options:
        """The options of the active jobs that hold whole devices.

        Args:
            state: read for what is known: guesses and what was learned, never the true curves.
            active: jobs pending or running.
            eta: leave out sizes whose last device adds less than this part of the first one's.
        """
        plain = state.jobs.view(np.ndarray)
        whole = (plain["milli"][active] == MILLI_PER_DEVICE) & (plain["devices"][active] > 0)
        jobs = active[whole]
        if not len(jobs):
            return cls(jobs, *(np.zeros(0, np.int64),) * 5, *(np.zeros(0),) * 4)
        groups = group_rows(plain["shape_id"][jobs], plain["curve"][jobs])
        worth = _per_kind(plain["reference_us"][jobs] / plain["estimate_us"][jobs], groups.of_row)
        sizes, speeds = _speeds(state, jobs[groups.first])
        kind, size, pool = np.nonzero(_worthwhile(sizes, speeds, eta))
        rate, count = speeds[kind, size, pool], sizes[kind, size]
        begin = np.searchsorted(kind, np.arange(len(groups.first) + 1))
        watts = count * _watts(state, jobs[groups.first])[kind, pool]
        value = rate * worth[kind]
        length_s = _per_kind(plain["estimate_us"][jobs], groups.of_row) / US_PER_S
        return cls(jobs, groups.of_row, begin, kind, pool, count, rate, value, watts, length_s)

    def at(self, kind: Ints, pool: Ints, count: Ints) -> Ints:
        """The options of kinds in a pool with so many devices; -1 = that is none."""
        pools, most = int(self.pool.max()) + 1, max(int(self.count.max()), int(count.max())) + 1
        keys = (self.kind * pools + self.pool) * most + self.count
        order = np.argsort(keys)
        sought = (kind * pools + pool) * most + count
        place = np.minimum(np.searchsorted(keys[order], sought), len(keys) - 1)
        found = order[place]
        known: Ints = np.where((keys[found] == sought) & (pool < pools), found, -1)
        return known


def _per_kind(values: Floats, of_row: Ints) -> Floats:
    """The mean of each kind's values."""
    counts = np.bincount(of_row)
    means: Floats = np.bincount(of_row, values) / counts
    return means


def _learned(state: State) -> Floats:
    """Measured over guessed speed by curve and pool: the mean of the jobs that were measured."""
    pools, curves = len(state.pools), len(state.ranges)
    if not len(state.learned):
        return np.ones((curves, pools))
    plain = state.jobs.view(np.ndarray)
    ratios = state.learned.reshape(-1, pools)
    elastic = plain["curve"] >= 0
    curve, ratios = plain["curve"][elastic], ratios[elastic]
    seen = ratios != 1.0
    out = np.ones((curves, pools))
    for pool in range(pools):
        count = np.bincount(curve[seen[:, pool]], minlength=curves)
        total = np.bincount(curve[seen[:, pool]], ratios[seen[:, pool], pool], minlength=curves)
        out[:, pool] = np.where(count > 0, total / np.maximum(count, 1), 1.0)
    return out


def _speeds(state: State, firsts: Ints) -> tuple[Ints, Floats]:
    """The sizes that jobs of each kind may have, and their speed (kind by size by pool; 0 = none).

    Args:
        state: as tuners know it.
        firsts: a job of each kind.
    """
    plain = state.jobs.view(np.ndarray)[firsts]
    pools, curves = len(state.pools), plain["curve"].astype(np.int64)
    asked, elastic = plain["devices"].astype(np.int64), curves >= 0
    steps = np.array(SIZES)
    sizes = np.sort(np.column_stack((np.tile(steps, (len(firsts), 1)), asked)), axis=1)
    fresh = np.diff(sizes, axis=1, prepend=0) > 0
    allowed = fresh & (sizes == asked[:, None])
    speeds = np.zeros((*sizes.shape, pools))
    if elastic.any():
        span = state.ranges.view(np.ndarray)[np.maximum(curves, 0)]
        inside = (sizes >= span["least"][:, None]) & (sizes <= span["most"][:, None])
        allowed = np.where(elastic[:, None], fresh & inside, allowed)
        kind, size = np.nonzero(allowed & elastic[:, None])
        points = span["first"][kind] + (sizes[kind, size] - span["least"][kind]) * pools
        known = state.guesses.view(np.ndarray)["packed"][points[:, None] + np.arange(pools)]
        speeds[kind, size] = known * _learned(state)[curves[kind]]
    kind, size = np.nonzero(allowed & ~elastic[:, None])
    rates = state.rates.view(np.ndarray)["packed"].reshape(-1, pools)
    speeds[kind, size] = rates[plain["profile"][kind]]
    bits = np.uint64(1) << np.arange(pools, dtype=np.uint64)
    could = (state.shapes.view(np.ndarray)["pools"][plain["shape_id"]][:, None] & bits) > 0
    return sizes, speeds * could[:, None, :]


def _watts(state: State, firsts: Ints) -> Floats:
    """What a device draws for each kind in each pool, its part of the host included."""
    pools = state.pools.view(np.ndarray)
    drawn = state.rates.view(np.ndarray)["watts"].reshape(-1, len(pools))
    profiles = state.jobs.view(np.ndarray)["profile"][firsts]
    watts: Floats = drawn[profiles] + pools["host_w"] / pools["capacity"]
    return watts


def _worthwhile(sizes: Ints, speeds: Floats, eta: float) -> npt.NDArray[np.bool_]:
    """Up to which sizes each further device adds at least `eta` of what the first ones do."""
    kinds, steps, pools = speeds.shape
    kept = np.zeros(speeds.shape, bool)
    last_size, last_speed = np.zeros((2, kinds, pools))
    floor = np.zeros((kinds, pools))
    for at in range(steps):
        size, speed = sizes[:, at, None], speeds[:, at]
        least = (floor == 0.0) & (speed > 0.0)
        more = speed - last_speed >= floor * (size - last_size)
        kept[:, at] = least | ((floor > 0.0) & (speed > 0.0) & more)
        floor = np.where(least, eta * speed / size, floor)
        last_size = np.where(kept[:, at], size, last_size)
        last_speed = np.where(kept[:, at], speed, last_speed)
    return kept
