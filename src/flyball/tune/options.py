"""Lists where jobs could run, on how many devices, and the estimated value of each option.

Equal jobs (same shape and curve) form a kind and have the same options. Speeds are the state's
guesses times what was learned since, never the true curves; the value of an option is in
reference device-seconds of work per second.
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
"""Sizes an elastic job is offered: those that leave no odd remainder on nodes."""


@dataclass(frozen=True)
class Options:
    """Holds the options of each kind of job: pool, number of devices, and estimated value.

    Attributes:
        jobs: the active jobs that may be placed, ascending.
        of_job: the kind of each job.
        begin: first option of each kind, then the number of options.
        kind, pool, count: kind, pool and number of devices of each option.
        rate: estimated progress per microsecond of each option, packed.
        value: reference device-seconds per second of each option.
        watts: draw of each option, including its share of the hosts.
        length_s: estimated run time as requested, the mean of each kind.
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
        """List the options of the active jobs that use whole devices.

        Args:
            state: read for guesses and what was learned, never for the true curves.
            active: jobs pending or running.
            eta: leave out sizes whose last device adds less than this part of the first one's.
        """
        plain = state.jobs.view(np.ndarray)
        uses_whole = (plain["milli"][active] == MILLI_PER_DEVICE) & (plain["devices"][active] > 0)
        jobs = active[uses_whole]
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
        """Return the options of kinds in pools with these numbers of devices; -1 = no such one."""
        pools, most = int(self.pool.max()) + 1, max(int(self.count.max()), int(count.max())) + 1
        keys = (self.kind * pools + self.pool) * most + self.count
        order = np.argsort(keys)
        sought = (kind * pools + pool) * most + count
        place = np.minimum(np.searchsorted(keys[order], sought), len(keys) - 1)
        option = order[place]
        match: Ints = np.where((keys[option] == sought) & (pool < pools), option, -1)
        return match


def _per_kind(values: Floats, of_row: Ints) -> Floats:
    """Return the mean of each kind's values."""
    counts = np.bincount(of_row)
    means: Floats = np.bincount(of_row, values) / counts
    return means


def _learned(state: State) -> Floats:
    """Return measured over guessed speed by curve and pool: the mean of the measured jobs."""
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
    """Return the sizes that jobs of each kind may have, and the speed at each.

    Args:
        state: as tuners see it.
        firsts: a job of each kind.

    Returns:
        (sizes by kind; speeds by kind, size and pool, 0 = not possible).
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
        guesses = state.guesses.view(np.ndarray)["packed"][points[:, None] + np.arange(pools)]
        speeds[kind, size] = guesses * _learned(state)[curves[kind]]
    kind, size = np.nonzero(allowed & ~elastic[:, None])
    rates = state.rates.view(np.ndarray)["packed"].reshape(-1, pools)
    speeds[kind, size] = rates[plain["profile"][kind]]
    bits = np.uint64(1) << np.arange(pools, dtype=np.uint64)
    could = (state.shapes.view(np.ndarray)["pools"][plain["shape_id"]][:, None] & bits) > 0
    return sizes, speeds * could[:, None, :]


def _watts(state: State, firsts: Ints) -> Floats:
    """Return what a device draws for each kind in each pool, including its part of the host."""
    pools = state.pools.view(np.ndarray)
    drawn = state.rates.view(np.ndarray)["watts"].reshape(-1, len(pools))
    profiles = state.jobs.view(np.ndarray)["profile"][firsts]
    watts: Floats = drawn[profiles] + pools["host_w"] / pools["capacity"]
    return watts


def _worthwhile(sizes: Ints, speeds: Floats, eta: float) -> npt.NDArray[np.bool_]:
    """Return the sizes up to which a further device adds at least `eta` of the first ones."""
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
