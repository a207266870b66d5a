"""Tuning rounds: at fixed times the tuners change what the policy decided.

Between two rounds the policy decides alone, or no decision is made. The speeds measured on
running jobs are written into the state here, for tuners to use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from flyball.core.codes import ActionKind, Status
from flyball.core.errors import BadInput
from flyball.core.forecast import NO_OUTLOOK, Outlook
from flyball.core.knobs import Knobs, Order
from flyball.core.protocols import PolicyLike, Tuner
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.tune import share

SEEN_US = 30_000_000
"""Minimum run time after which a job's speed counts as measured."""


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

    def plan(self, state: State, signals: Outlook = NO_OUTLOOK) -> Records:
        """Return the plan for now; the state is not changed.

        Args:
            signals: the forecasts of price and carbon.
        """
        outlook = NO_OUTLOOK if self.outlook is None else self.outlook(state)
        outlook = outlook._replace(price=signals.price, carbon=signals.carbon)
        plan = self.policy.decide(state, outlook)
        for tuner in self.tuners:
            plan = tuner.adjust(state, outlook, plan)
        return _without_reservation(plan)

    def policy_plan(self, state: State) -> Records:
        """Return the plan of the policy alone for now."""
        return _without_reservation(self.policy.decide(state, NO_OUTLOOK))


def _without_reservation(plan: Records) -> Records:
    kept: Records = plan[plan["kind"] != ActionKind.RESERVE]
    return kept


def learn_speeds(state: State) -> None:
    """Record the measured speeds of running jobs relative to what tuners guessed."""
    runs, now = state.runs, state.clock[0].now_us
    if len(state.learned):
        seen = (runs.status == Status.RUNNING) & (now - runs.ready_us >= SEEN_US)
        _learn_sizes(state, np.flatnonzero(seen & (state.jobs.curve >= 0)))
    if len(state.pairs):
        state.pair_guesses[:] = share.learn(state)


def _learn_sizes(state: State, seen: Ints) -> None:
    """Record measured over guessed speed of elastic jobs where they run."""
    pools = len(state.pools)
    ranges = state.jobs.curve[seen]
    first, least = state.ranges.first[ranges], state.ranges.least[ranges]
    pool = state.runs.pool[seen].astype(np.int64)
    at = first + (state.runs.devices[seen] - least) * pools + pool
    true, guess = state.points.packed[at], state.guesses.packed[at]
    guessed = guess > 0
    state.learned[(seen * pools + pool)[guessed]] = (true / np.where(guessed, guess, 1.0))[guessed]
