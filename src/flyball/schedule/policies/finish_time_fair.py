"""Finish-time fairness (Themis, NSDI 2020, as Gavel's programme on mixed hardware).

rho of a job is its expected time from submission to end over the time it would take alone
with an even part of the cluster. Minimises the greatest rho over the active jobs. For a
given rho each job needs a certain speed, and a linear programme gives the factor by which all
needs can be met; a few programmes find the rho at which that factor is 1. Wins on the worst
finish-time fairness; otherwise near `max-min-het`. Depends on estimates of the work left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.knobs import Knobs, Optimum, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by, time_alone
from flyball.schedule.shares.groups import group
from flyball.schedule.shares.programmes import max_min

CLOSE = 1e-3
"""Relative change of rho at which the search stops."""
MOST_PROGRAMMES = 12
"""Linear programmes solved at most for one division."""
LEAST_SPARE_US = 1e-3
"""Least time a job is given for the work left: far below the clock's microsecond."""
MOST_BISECTIONS = 40
"""The same with optimum = centre."""


@dataclass(frozen=True)
class EqualRho:
    """Computes target shares with the least greatest rho."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        def rule(demand: Demand) -> Floats:
            return least_rho(demand, *time_alone(state, demand), self.optimum)

        return targets_by(state, rule)


def least_rho(
    demand: Demand, alone_us: Floats, alone_rate: Floats, optimum: Optimum = Optimum.CORNER
) -> Floats:
    """Return the shares that minimise the greatest rho.

    Args:
        demand: the active jobs.
        alone_us: how long each job's work so far would have taken alone.
        alone_rate: how fast it would go on alone.
        optimum: which of several such shares.
    """
    total_us = alone_us + demand.left_us / alone_rate
    if optimum == Optimum.CENTRE:
        return _centre(demand, total_us)
    rho = 2.0 * max(1.0, float(np.max(demand.elapsed_us / total_us)))
    shares = demand.speeds
    for _ in range(MOST_PROGRAMMES):
        shares, reached, _ = _shares_for(demand, total_us, rho)
        if abs(reached - rho) <= CLOSE * rho:
            break
        rho = reached
    return shares


def _shares_for(
    demand: Demand, total_us: Floats, rho: float, optimum: Optimum = Optimum.CORNER
) -> tuple[Floats, float, float]:
    """Return (shares by the needs of a rho, the greatest rho they reach, the factor of needs)."""
    spare_us = np.maximum(rho * total_us - demand.elapsed_us, LEAST_SPARE_US)
    groups = group(demand.asks, demand.speeds, demand.left_us / spare_us)
    factor, best = max_min(groups, demand.capacity, optimum)
    # With the needs met `factor` times over, this is the greatest rho.
    reached = float(np.max((demand.elapsed_us + spare_us / factor) / total_us))
    return best[groups.of_job], reached, factor


def _centre(demand: Demand, total_us: Floats) -> Floats:
    """Return the centre of the shares that minimise the greatest rho, which is bisected.

    A job with little left to do and a high rho already needs its rho to a fine part of what is
    above that: the search ends relative to this, not to rho.
    """
    least = low = float(np.max(demand.elapsed_us / total_us))
    high = _shares_for(demand, total_us, 2.0 * max(1.0, least))[1]
    for _ in range(MOST_BISECTIONS):
        if high - low <= CLOSE * (high - least):
            break
        middle = (low + high) / 2.0
        _, reached, factor = _shares_for(demand, total_us, middle)
        if factor < 1.0:
            low = middle
        high = min(high, reached)
    return _shares_for(demand, total_us, high, Optimum.CENTRE)[0]


POLICY = Preset(
    name="finish-time-fair",
    summary="the least greatest ratio of finish time to that with an even part, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0, solve_s=1920.0),
    allocator=EqualRho(),
)
