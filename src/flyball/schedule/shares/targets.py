"""Writes the target shares that a policy computed into the state."""

from __future__ import annotations

import numpy as np

from flyball.core.codes import Status
from flyball.core.errors import FlyballError
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.shares.demand import Demand, time_alone


class BadTargets(FlyballError):
    """Raised if a policy's targets are not shares of time."""


def set_targets(state: State, targets: Floats) -> None:
    """Write new targets, and add what the old ones still owed to the deficits.

    Args:
        state: the state at an instant at which targets are due.
        targets: one row per job, one column per pool, none negative.
    """
    clock, runs, shares = state.clock[0], state.runs, state.shares
    pools, now = len(state.pools), int(clock.now_us)
    flat = np.ascontiguousarray(targets, np.float64).reshape(-1)
    if flat.shape != shares.target.shape or not np.all(flat >= 0.0):
        raise BadTargets(
            f"a policy gave targets of shape {targets.shape}, or negative ones",
            f"give {len(state.jobs)} rows of {pools} shares",
        )
    received_us = shares.received_us.copy()
    running = np.flatnonzero(runs.status == Status.RUNNING)
    at = running * pools + runs.pool[running]
    received_us[at] += now - np.maximum(runs.since_us[running], clock.asked_us)
    last = now if clock.asked_us < 0 else int(clock.asked_us)
    shares.deficit_us += shares.target * (now - last) - received_us
    shares.received_us = 0.0
    shares.target = flat
    _remember_claims(state)
    clock.asked_us = now
    clock.shares_due = 0


def _remember_claims(state: State) -> None:
    """Record what each active job would have had alone, up to now and from now on."""
    demand = Demand.of(state)
    if not len(demand.jobs):
        return
    alone_us, alone_rate = time_alone(state, demand)
    at = demand.jobs
    state.claims.alone_us[at], state.claims.alone_rate[at] = alone_us, alone_rate
    state.claims.done_us[at] = demand.done_us
