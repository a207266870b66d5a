"""The input of a policy of target shares: what each job asks for and its speed in each pool.

Jobs of one shape ask for the same and run alike, so a linear programme needs one set of
variables per shape (or per shape and need), not per job.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE


@dataclass(frozen=True)
class Demand:
    """Holds the active jobs (pending or running) that nodes now up could run, and the capacity.

    Attributes:
        jobs: indices of the active jobs, ascending.
        asks: devices each asks for; may be a fraction.
        speeds: progress per microsecond, job by pool; 0 where it cannot run.
        capacity: devices up, by pool.
        elapsed_us: time since each was submitted.
        done_us: work each has done so far.
        left_us: estimated work left.
        total: number of jobs in the workload, active or not.
        hosted: active jobs without devices: they have no share in the division and may always run.
    """

    jobs: Ints
    asks: Floats
    speeds: Floats
    capacity: Floats
    elapsed_us: Floats
    done_us: Floats
    left_us: Floats
    total: int
    hosted: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def of(cls, state: State) -> Demand:
        """Build the demand at the state's instant. Reads estimates, never true durations."""
        jobs, runs, pools = state.jobs, state.runs, state.pools
        now = int(state.clock[0].now_us)
        capacity = np.array([_up_devices(state, pool_id) for pool_id in range(len(pools))])
        active = np.flatnonzero((runs.status == Status.PENDING) | (runs.status == Status.RUNNING))
        speeds = _speeds(state, active) * (capacity > 0)
        able = speeds.any(axis=1) & (jobs.devices[active] > 0)
        hosted = active[jobs.devices[active] == 0]
        active, speeds = active[able], speeds[able]
        done_us = _done_us(state, active, now)
        return cls(
            jobs=active,
            asks=jobs.devices[active] * (jobs.milli[active] / MILLI_PER_DEVICE),
            speeds=speeds,
            capacity=capacity,
            elapsed_us=(now - jobs.submit_us[active]).astype(np.float64),
            done_us=done_us,
            left_us=_guesses_us(jobs.estimate_us[active], done_us) - done_us,
            total=len(jobs),
            hosted=hosted,
        )

    @property
    def even_speeds(self) -> Floats:
        """Return the speed of each job if it had every pool for a time proportional to its size."""
        speeds: Floats = self.speeds @ self.capacity / self.capacity.sum()
        return speeds

    def spread_out(self, shares: Floats) -> Floats:
        """Expand the shares of the active jobs to the state's table of all jobs."""
        table = np.zeros((self.total, self.speeds.shape[1]))
        table[self.jobs] = np.clip(shares, 0.0, 1.0)
        table[self.hosted] = 1.0
        return table

    def even_parts(self) -> Floats:
        """Return the shares of each job if the active jobs split every pool evenly."""
        part = self.capacity / (len(self.jobs) * self.asks[:, None])
        parts: Floats = part / np.maximum(1.0, part.sum(axis=1))[:, None]
        return parts

    def alone_rates(self) -> Floats:
        """Return the rate of each job if the active jobs split every pool evenly."""
        rates: Floats = (self.speeds * self.even_parts()).sum(axis=1)
        return rates


def targets_by(state: State, rule: Callable[[Demand], Floats]) -> Floats:
    """Return the table of targets by a rule that computes the shares of a demand's jobs."""
    demand = Demand.of(state)
    return demand.spread_out(rule(demand) if len(demand.jobs) else demand.speeds)


def _done_us(state: State, active: Ints, now: int) -> Floats:
    """Return the work done, including that of the running slices."""
    runs: Any = state.runs[active]
    running = (runs.status == Status.RUNNING) & (runs.first_row >= 0)
    slice_us = np.maximum(0, now - runs.ready_us) * runs.rate
    done: Floats = runs.done_us + np.where(running, slice_us, 0.0)
    return done


def _guesses_us(estimate_us: Floats, done_us: Floats) -> Floats:
    """Return the estimates, doubled until they exceed the work done."""
    ratio = np.maximum(1.0, done_us / estimate_us)
    guesses = estimate_us * 2.0 ** np.ceil(np.log2(ratio))
    behind: Floats = np.where(guesses <= done_us, 2.0 * guesses, guesses)
    return behind


def _speeds(state: State, active: Ints) -> Floats:
    """Return the rates by job and pool where the job could run, packed and without a power cap."""
    pools = len(state.pools)
    shapes: Any = state.shapes[state.jobs.shape_id[active]]
    bits = np.uint64(1) << np.arange(pools, dtype=np.uint64)
    could = (shapes.pools[:, None] & bits) > 0
    speeds: Floats = state.rates.packed.reshape(-1, pools)[shapes.profile] * could
    return speeds


def _up_devices(state: State, pool_id: int) -> float:
    pool = state.pools[pool_id]
    nodes: Any = state.nodes[pool.first_node : pool.first_node + pool.nodes]
    return float(pool.capacity * np.count_nonzero(nodes.down == 0))


def time_alone(state: State, demand: Demand) -> tuple[Floats, Floats]:
    """Return for each active job (the time of its work so far if alone; its rate if alone now).

    *Alone* means with an even part of every pool, as many parts as there were active jobs when
    the policy was last asked. The first number is updated from the state's claims.
    """
    claims: Any = state.claims[demand.jobs]
    since = np.divide(
        demand.done_us - claims.done_us,
        claims.alone_rate,
        out=np.zeros(len(demand.jobs)),
        where=claims.alone_rate > 0,
    )
    return claims.alone_us + since, demand.alone_rates()
