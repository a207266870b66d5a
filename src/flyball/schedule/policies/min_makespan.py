"""Least makespan on mixed hardware (Gavel's policy, OSDI 2020).

Maximises the least of `speed / estimated work left` over the active jobs, so that all end as
early as the last one can: a linear programme. For batches with a common deadline. Wins on
makespan; short jobs end late, with all others, so mean completion is the worst of all
policies. Depends on estimates of the work left.
"""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by
from flyball.schedule.shares.programmes import group, max_min


@dataclass(frozen=True)
class EqualEnd:
    """Computes target shares with which all jobs should end together, as early as possible."""

    def targets(self, state: State) -> Floats:
        return targets_by(state, equal_end)


def equal_end(demand: Demand) -> Floats:
    """Return the shares that maximise the least speed relative to the work left."""
    needs = demand.left_us / demand.left_us.max()
    groups = group(demand.asks, demand.speeds, needs)
    return max_min(groups, demand.capacity)[1][groups.of_job]


POLICY = Preset(
    name="min-makespan",
    summary="all jobs end together as early as the last one can, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=EqualEnd(),
)
