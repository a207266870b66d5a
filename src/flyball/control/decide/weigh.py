"""What a recorded decision could have been: the plans of other policies from what it saw, and why
jobs waited.

    weighed = Weigher(number, others).follow(events) and weigher.weighed

Everything comes from the journal: the state that the decision saw is built again, each policy
decides in it, and roll-outs of the twin say when the jobs that waited would start under each. Run
times are drawn around the estimates, the same for every policy, so differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.control.decide.decider import Decider, Plan, listed
from flyball.control.decide.verify import Verifier
from flyball.core.codes import ActionKind, Status
from flyball.core.events import Decided, Event, Opened
from flyball.core.knobs import Knobs, Order
from flyball.core.results import Floats
from flyball.schedule.explain import Names, explain
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.twin.live import Snapshot, View
from flyball.twin.lookahead import start_times

DRAWS = 12
"""Roll-outs of each policy."""
SPREAD = 0.5
"""Spread of the run times around their estimates: sigma of the logarithm."""
T95 = 2.201
"""Student's t for DRAWS values."""
WAITING_SHOWN = 8
"""Jobs whose wait is explained: the first ones of the queue."""


@dataclass(frozen=True)
class Alternative:
    """Holds what one policy would have done.

    Attributes:
        policy: its name.
        plan: its actions, as a decision lists them.
        is_same: whether that is what was decided.
        wait_s: mean time until the jobs that waited start, as mean over the roll-outs.
        change_s: the same less that of the decision: mean and 95 % interval; None = the decision.
    """

    policy: str
    plan: Plan
    is_same: bool
    wait_s: float | None
    change_s: tuple[float, float, float] | None


@dataclass(frozen=True)
class Weighed:
    """Holds the alternatives of one decision.

    Attributes:
        alternatives: of the policy that decided first, then of the others.
        waiting: number of jobs that waited before it.
        waits: for the first jobs of the queue that it did not start, (job, token, sentence).
    """

    alternatives: list[Alternative]
    waiting: int
    waits: list[tuple[int, str, str]]


class Weigher(Verifier):
    """Follows the events of a journal up to one decision, and weighs that.

    Args:
        number: of the decision.
        others: knobs of other policies, by name.

    Attributes:
        weighed: the result; None = the decision has not come yet.
    """

    def __init__(self, number: int, others: Mapping[str, Knobs]) -> None:
        super().__init__()
        self._number, self._others = number, others
        self._chosen: Mapping[str, Any] | None = None  # by a learned policy, at last
        self.weighed: Weighed | None = None

    def _open(self, event: Opened) -> None:
        super()._open(event)
        self._chosen = None

    def _check(self, event: Decided) -> None:
        """Note what a learned policy chose; at the decision asked about, weigh it."""
        self._chosen = event.learned or self._chosen
        if event.number != self._number:
            return
        decider, view, ids = self._seen_by(event)
        if self._chosen is not None:
            decider.govern_again(view, event.time_us, self._chosen)
        self.weighed = _weighed(decider, view, ids, event, self._others)


def _weighed(
    decider: Decider, view: View, ids: Any, event: Decided, others: Mapping[str, Knobs]
) -> Weighed:
    now_us = event.time_us
    policies = {decider.policy: decider.knobs}
    policies |= {name: knobs for name, knobs in others.items()
                 if name != decider.policy and knobs.order != Order.SHARES}  # fmt: skip
    draws = _draws(view, event.number)
    base: Floats | None = None
    alternatives = []
    waits: list[tuple[int, str, str]] = []
    waiting: Any = np.zeros(0, np.int64)
    for name, knobs in policies.items():
        snapshot = Snapshot(decider.cluster, view, knobs, now_us)
        if base is None:
            waiting = np.flatnonzero(snapshot.state.runs.status[: len(ids)] == Status.PENDING)
        plan = listed(snapshot.decide(event.is_round), ids)
        if base is None:
            waits = _waits(decider, snapshot, view, ids)
        starts = start_times(decider.cluster, view, knobs, now_us, draws)[:, waiting]
        means = np.nanmean(starts, axis=1) if starts.size else np.zeros(0)
        change = None if base is None or not len(means) else _change(means - base)
        base = means if base is None else base
        alternatives.append(
            Alternative(
                name, plan, _starts(plan) == _starts(event.plan),
                float(means.mean()) if len(means) else None, change,
            )
        )  # fmt: skip
    return Weighed(alternatives, len(waiting), waits)


def _draws(view: View, seed: int) -> Floats:
    """Return run times around the estimates, a row per roll-out."""
    scores = np.random.default_rng(seed).standard_normal((DRAWS, len(view.workload)))
    drawn: Floats = view.workload.estimate_us * np.exp(SPREAD * scores)
    return drawn


def _change(gaps: Floats) -> tuple[float, float, float]:
    mean, half = float(gaps.mean()), T95 * float(gaps.std(ddof=1)) / len(gaps) ** 0.5
    return mean, mean - half, mean + half


def _starts(plan: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Return what a plan does to jobs, without reasons and reservations."""
    acts = (int(ActionKind.START), int(ActionKind.PREEMPT))
    return sorted((int(row[0]), *(int(value) for value in row[1:4])) for row in plan
                  if row[0] in acts)  # fmt: skip


def _waits(
    decider: Decider, snapshot: Snapshot, view: View, ids: Any
) -> list[tuple[int, str, str]]:
    """Return why the first jobs of the queue were not started."""
    names = Names.of([str(job) for job in ids.tolist()], decider.cluster.groups,
                     view.workload.tenants)  # fmt: skip
    order = QueueFacts(snapshot.state, decider.knobs, names).order
    rows = []
    for at in [int(place) for place in order[:WAITING_SHOWN]]:
        reason = explain(snapshot.state, decider.knobs, at, names)
        rows.append((int(ids[at]), reason.token, reason.sentence))
    return rows


def weigh(events: Any, number: int, others: Mapping[str, Knobs]) -> Weighed | None:
    """Return the alternatives of a decision; None if the events do not have it.

    Args:
        events: pages of numbered events, in order.
    """
    weigher = Weigher(number, others)
    for page in events:
        last: list[tuple[int, Event]] = list(page)
        weigher.follow(last)
        if weigher.weighed is not None:
            break
    return weigher.weighed
