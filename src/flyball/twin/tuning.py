"""Tuning rounds: at fixed times the tuners change what the policy decided.

Between two rounds the policy decides alone, or no decision is made. In a round the speeds measured
on running jobs are written into the state first, for tuners to use (`tune/seen_speeds.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from flyball.core.codes import ActionKind
from flyball.core.errors import BadInput
from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs, Order
from flyball.core.protocols import PolicyLike, Tuner
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.schedule.policies.preset import Preset


class OutlookSource(Protocol):
    """Tells what is forecast at the instant of a state, from its past alone."""

    def __call__(self, state: State) -> Outlook: ...
    def fresh(self) -> OutlookSource:
        """Return the same for another run."""
        ...


class EstimateSource(Protocol):
    """Predicts the work of jobs from what is known at the instant of a state."""

    def __call__(self, state: State) -> Floats:
        """Return the estimated work of every job, in microseconds of its requested gang."""
        ...


@dataclass(frozen=True)
class Tuning:
    """Holds the tuners and when they run.

    Attributes:
        tuners: in the order in which they change the plan.
        policy: decides first.
        every_s: time between two rounds.
        between: whether the policy also decides between rounds.
        outlook: returns the forecasts for the policy and the tuners; None = nothing is forecast.
        estimates: predicts the work of jobs anew in every round; None = as the workload states it.
        note: called with the time and plan of every plan carried out in a round.
    """

    tuners: tuple[Tuner, ...]
    policy: PolicyLike
    every_s: float = 60.0
    between: bool = True
    outlook: OutlookSource | None = None
    estimates: EstimateSource | None = None
    note: Callable[[int, Records], None] | None = None

    @property
    def every_us(self) -> int:
        return to_us(self.every_s)

    def fresh(self) -> Tuning:
        """Return the same for another run."""
        return self if self.outlook is None else replace(self, outlook=self.outlook.fresh())

    def check(self, knobs: Knobs) -> None:
        """
        Raises:
            BadInput: an order that counts devices as asked for, which tuners change.
        """
        if knobs.order in (Order.SHARES, Order.FAIR):
            raise BadInput(
                "order=shares and order=fair do not go with tuners", "use another policy"
            )
        if knobs.moves and self.tuners:
            raise BadInput(
                "move_s does not go with tuners: both would move jobs",
                "set move_s=0, or leave the tuners out",
            )
        if self.every_s < 1.0:
            raise BadInput(f"tuning rounds every {self.every_s:g} s", "use 1 s or more")

    def plan(
        self, state: State, signals: Outlook = NO_OUTLOOK, into: State | None = None
    ) -> Records:
        """Return the plan for now; the state is not changed.

        Args:
            state: as tuners may see it.
            signals: the forecasts of price and carbon.
            into: a copy of the state for a preset to decide on; None = it makes one.
        """
        outlook = NO_OUTLOOK if self.outlook is None else self.outlook(state)
        outlook = outlook._replace(price=signals.price, carbon=signals.carbon)
        plan = self._decide(state, outlook, into)
        for tuner in self.tuners:
            plan = tuner.adjust(state, outlook, plan)
        return _without_reservation(plan)

    def _decide(self, state: State, outlook: Outlook, into: State | None) -> Records:
        if isinstance(self.policy, Preset):
            return self.policy.decide(state, outlook, into)
        return self.policy.decide(state, outlook)

    def policy_plan(self, state: State) -> Records:
        """Return the plan of the policy alone for now."""
        return _without_reservation(self.policy.decide(state, NO_OUTLOOK))


def _without_reservation(plan: Records) -> Records:
    kept: Records = plan[plan["kind"] != ActionKind.RESERVE]
    return kept
