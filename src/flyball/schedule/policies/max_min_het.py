"""Max-min fairness over speed on mixed hardware (Gavel's policy, OSDI 2020).

Maximises, over all active jobs, the least of `devices x speed / what an even part of the
cluster would give`: a linear programme over (shape, pool). A job that gains little from a
fast type is given time on slow ones, and every job ends up above the even split. Needs
speeds by model and type; where they are estimated, so is the gain. Loses to shortest-first
orders on mean completion; wins on fairness and on makespan over every policy that does not
distinguish types.
"""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.knobs import Knobs, Optimum, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by
from flyball.schedule.shares.groups import group
from flyball.schedule.shares.programmes import max_min


@dataclass(frozen=True)
class EqualSpeed:
    """Computes target shares with equal speed, relative to an even part, for every job."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: equal_speed(demand, self.optimum))


def equal_speed(demand: Demand, optimum: Optimum = Optimum.CORNER) -> Floats:
    """Return the shares that maximise the least relative speed."""
    relative = demand.speeds * (demand.asks / demand.even_speeds)[:, None]
    groups = group(demand.asks, relative)
    return max_min(groups, demand.capacity, optimum)[1][groups.of_job]


POLICY = Preset(
    name="max-min-het",
    summary="equal speed for every job over time, using each type for those it suits, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=EqualSpeed(),
)
