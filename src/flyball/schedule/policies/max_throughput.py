"""Greatest total throughput in training steps per second (Gavel's policy, OSDI 2020).

A linear programme gives devices to the jobs that make most steps per second on them; jobs
with slow steps get what is left over. Steps are those of the model, where its speed was
measured; else a step is a second of the job's run time. Since steps of different models are
not comparable, it favours models with short steps: `max-speed` compares each job with itself
and is the stronger rule. Unfair by design.
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
class MostSteps:
    """Computes target shares with the most steps per second in total."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        def rule(demand: Demand) -> Floats:
            return most_steps(demand, _steps(state, demand), self.optimum)

        return targets_by(state, rule)


def _steps(state: State, demand: Demand) -> Floats:
    """Return the steps each job makes per second of its progress."""
    steps: Floats = state.rates.steps.reshape(-1, len(state.pools))[:, 0][
        state.jobs.profile[demand.jobs]
    ]
    return steps


def most_steps(demand: Demand, steps: Floats, optimum: Optimum = Optimum.CORNER) -> Floats:
    """Return the shares with the most steps per second in total."""
    groups = group(demand.asks, demand.speeds, steps)
    gains = groups.speeds * groups.needs[:, None]
    return max_sum(groups, demand.capacity, gains, optimum)[groups.of_job]


POLICY = Preset(
    name="max-throughput",
    summary="most training steps per second in total, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=MostSteps(),
)
