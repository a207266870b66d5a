"""Greatest total speed, each job measured against itself on its best type.

A linear programme maximises the sum over jobs of `speed / speed on its best pool`. A job
counts once however many devices it asks for, so narrow jobs and good matches of job and type
go first, wide gangs get what is left over. On mixed hardware it has the lowest mean
completion of the share policies; the widest gangs wait longest. Needs no estimate of run time.
"""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.knobs import Knobs, Optimum, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by
from flyball.schedule.shares.groups import group
from flyball.schedule.shares.programmes import max_sum


@dataclass(frozen=True)
class MostSpeed:
    """Computes target shares with the greatest sum of relative speeds."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: most_speed(demand, self.optimum))


def most_speed(demand: Demand, optimum: Optimum = Optimum.CORNER) -> Floats:
    """Return the shares with the greatest sum of speed / speed on the job's best pool."""
    groups = group(demand.asks, demand.speeds)
    gains = groups.speeds / groups.speeds.max(axis=1)[:, None]
    return max_sum(groups, demand.capacity, gains, optimum)[groups.of_job]


POLICY = Preset(
    name="max-speed",
    summary="greatest sum of speeds relative to each job's best type, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=MostSpeed(),
)
