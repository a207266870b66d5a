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

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by, time_alone
from flyball.schedule.shares.programmes import group, max_min

CLOSE = 1e-3
"""Relative change of rho at which the search stops."""
MOST_PROGRAMMES = 12
"""Linear programmes solved at most for one division."""


@dataclass(frozen=True)
class EqualRho:
    """Computes target shares with the least greatest rho."""

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: least_rho(demand, *time_alone(state, demand)))


def least_rho(demand: Demand, alone_us: Floats, alone_rate: Floats) -> Floats:
    """Return the shares that minimise the greatest rho.

    Args:
        demand: the active jobs.
        alone_us: how long each job's work so far would have taken alone.
        alone_rate: how fast it would go on alone.
    """
    total_us = alone_us + demand.left_us / alone_rate
    rho = 2.0 * max(1.0, float(np.max(demand.elapsed_us / total_us)))
    shares = demand.speeds
    for _ in range(MOST_PROGRAMMES):
        spare_us = rho * total_us - demand.elapsed_us
        groups = group(demand.asks, demand.speeds, demand.left_us / spare_us)
        factor, best = max_min(groups, demand.capacity)
        shares = best[groups.of_job]
        # With the needs met `factor` times over, this is the greatest rho.
        reached = float(np.max((demand.elapsed_us + spare_us / factor) / total_us))
        if abs(reached - rho) <= CLOSE * rho:
            break
        rho = reached
    return shares


POLICY = Preset(
    name="finish-time-fair",
    summary="the least greatest ratio of finish time to that with an even part, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0, solve_s=1920.0),
    allocator=EqualRho(),
)
