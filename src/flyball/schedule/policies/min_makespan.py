"""Least makespan on mixed hardware (Gavel's policy, OSDI 2020).

Maximises the least of `speed / estimated work left` over the active jobs, so that all end as
early as the last one can: a linear programme. For batches with a common deadline. Wins on
makespan; short jobs end late, with all others, so mean completion is the worst of all
policies. Depends on estimates of the work left.
"""

from __future__ import annotations

from dataclasses import dataclass

from flyball.core.knobs import Knobs, Optimum, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.units import US_PER_S
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.centre import Programme
from flyball.schedule.shares.demand import Demand, targets_by
from flyball.schedule.shares.groups import group
from flyball.schedule.shares.programmes import max_min

FIRST_SPANS_S = (100.0, 1e6)
SEARCH_TO = 1.05
"""Range and precision of the search for the least span with optimum = centre, as in Gavel."""


@dataclass(frozen=True)
class EqualEnd:
    """Computes target shares with which all jobs should end together, as early as possible."""

    optimum: Optimum = Optimum.CORNER

    def targets(self, state: State) -> Floats:
        return targets_by(state, lambda demand: equal_end(demand, self.optimum))


def equal_end(demand: Demand, optimum: Optimum = Optimum.CORNER) -> Floats:
    """Return the shares that maximise the least speed relative to the work left.

    With optimum = centre: the centre of all shares with which every job ends within the span that
    Gavel's search ends at, which is up to 5 % above the least.
    """
    needs = demand.left_us / demand.left_us.max()
    groups = group(demand.asks, demand.speeds, needs)
    factor, shares = max_min(groups, demand.capacity)
    if optimum == Optimum.CENTRE:
        least_s = float(demand.left_us.max()) / factor / US_PER_S
        needs = groups.needs * factor * least_s / searched_span_s(least_s)
        shares = Programme(groups, demand.capacity, needs=needs, fixed=True).solve()[1]
    return shares[groups.of_job]


def searched_span_s(least_s: float) -> float:
    """Return the span that a bisection between 100 s and 1e6 s ends at, to 5 %.

    Larger spans are searched for in the next decades.
    """
    low, high, most = FIRST_SPANS_S[0], FIRST_SPANS_S[1], FIRST_SPANS_S[1]
    while most < least_s:
        low, high, most = most, 10.0 * most, 10.0 * most
    while SEARCH_TO * low < high:
        middle = (low + high) / 2.0
        if middle >= least_s:
            high = middle
        else:
            low = middle
    return high


POLICY = Preset(
    name="min-makespan",
    summary="all jobs end together as early as the last one can, in rounds",
    knobs=Knobs(order=Order.SHARES, preempt=Preempt.ROUNDS, round_s=360.0),
    allocator=EqualEnd(),
)
