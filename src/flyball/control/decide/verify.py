"""Repeats every recorded decision from the journal, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flyball.control.decide.decider import Decider
from flyball.control.decide.governing import MakeGoverns
from flyball.control.decide.job_columns import JobColumns
from flyball.control.decide.tuning_rounds import Tuning, rules_of
from flyball.control.jobs.fit import FitCheck
from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.request import cluster_of, demand_in, nodes_of, resizes_in
from flyball.core.errors import BadInput
from flyball.core.events import Decided, Event, Opened
from flyball.core.forecast import outlook_from_json
from flyball.core.knobs import Knobs
from flyball.core.live import Capabilities
from flyball.core.protocols import Tuner
from flyball.twin.live import View


@dataclass
class Verdict:
    """Holds the result of a verification.

    Attributes:
        decisions: number of repeated decisions.
        actions: number of actions in their plans.
        choices: choices of a learned policy among them.
        absent: those that were taken from the record, as the policy's file is not here.
        differing: numbers of decisions that came out differently, with what differs.
        outdated: adjustments by an earlier rule of a tuner, which are not repeated, by tuner.
    """

    decisions: int = 0
    actions: int = 0
    choices: int = 0
    absent: int = 0
    differing: list[tuple[int, str]] = field(default_factory=list)
    outdated: dict[str, int] = field(default_factory=dict)


MakeTuners = Callable[[Sequence[str], Sequence[str]], dict[str, Tuner]]


class Verifier:
    """Follows the events of a journal, in order, and repeats its decisions.

    Args:
        tuners: makes the tuners recorded by a control plane, with their settings.
        governs: makes what serves its learned policy.
    """

    def __init__(
        self, tuners: MakeTuners | None = None, governs: MakeGoverns | None = None
    ) -> None:
        self._tuners = tuners or (lambda names, settings: {})
        self._governs = governs or (lambda about: None)
        self.verdict = Verdict()
        self._live_state = LiveState()
        self._decider: Decider | None = None
        self._waiting: list[tuple[int, Event]] = []
        self._changed: list[str] = []  # tuners whose rule is another by now

    def follow(self, events: Iterable[tuple[int, Event]]) -> Verdict:
        """Process the next events; return the result so far."""
        for seq, event in events:
            if isinstance(event, Opened):
                self._absorb(seq)
                self._open(event)
            elif isinstance(event, Decided):
                self._check(event)
            self._waiting.append((seq, event))
        return self.verdict

    def _open(self, event: Opened) -> None:
        """Start as a control plane did, perhaps with another policy or on another machine."""
        self._live_state.all_up()  # until told otherwise
        nodes = nodes_of(event)
        knobs = Knobs().with_settings([f"{k}={v}" for k, v in event.knobs.items()])
        demand = demand_in(event)
        columns = JobColumns(demand, knobs.reads_spread, resizes_in(event))
        columns.update(self._live_state.jobs)
        self._live_state.watchers = [columns.update]
        cluster = cluster_of(nodes, event.cluster, event.budget_w)
        columns.unfit = FitCheck(demand, cluster, knobs).unfit(self._live_state.jobs.values())
        names = event.tuners or ()
        rules = event.tuner_rules or [1] * len(names)
        self._changed = [
            name
            for name, rule, now in zip(names, rules, rules_of(names), strict=True)
            if rule != now
        ]
        tuning = Tuning(self._tuners(names, event.tuner_settings or ()))
        tuning.can = None if event.can is None else Capabilities.of(event.can)
        governor = self._governs(event.learned) if event.learned else None
        self._decider = Decider(
            self._live_state, columns, cluster, event.policy, knobs, tuning, governor
        )

    def _absorb(self, up_to: int) -> None:
        """Fold the events up to this number into the live state."""
        ready = [numbered for numbered in self._waiting if numbered[0] <= up_to]
        self._waiting = self._waiting[len(ready) :]
        for seq, event in ready:
            self._live_state.absorb(seq, self._live_state.fold([event]), [event])

    def _seen_by(self, event: Decided) -> tuple[Decider, View, Any]:
        """Return the decider, the view that a decision was made from, and the ids of its jobs."""
        if self._decider is None:
            why = f"decision {event.number} comes before any control plane began"
            raise BadInput(f"the journal is damaged ({why})", "restore a backup")
        self._absorb(event.seen)
        first = len(self._waiting) - event.own
        unrecorded = [waiting for _seq, waiting in self._waiting[first:]]
        changes = self._live_state.fold(unrecorded)
        view, ids = self._decider.view_after(unrecorded, changes)
        if event.pathway:
            self._decider.follow(event.pathway)
        return self._decider, view.at_prices(event.signals or {}), ids

    def _check(self, event: Decided) -> None:
        decider, view, ids = self._seen_by(event)
        if event.learned:
            self._check_choice(view, event)
        snapshot, plan, digest = decider.make(view, ids, event.time_us, event.is_round)
        self.verdict.decisions += 1
        self.verdict.actions += len(event.plan) + len(event.adjusted or ())
        if digest != event.digest:
            self.verdict.differing.append((event.number, "what it saw"))
        elif plan != _plain(event.plan):
            self.verdict.differing.append((event.number, "its plan"))
        elif event.adjusted is not None and self._changed:
            for name in self._changed:
                self.verdict.outdated[name] = self.verdict.outdated.get(name, 0) + 1
        elif event.adjusted is not None:
            outlook = outlook_from_json(event.forecast)
            if decider.adjust(snapshot, ids, outlook) != _plain(event.adjusted):
                self.verdict.differing.append((event.number, "what tuners made of it"))

    def _check_choice(self, view: View, event: Decided) -> None:
        """Make the learned policy's choice again, and go on with the recorded one."""
        assert self._decider is not None and event.learned is not None
        if self._decider.governor is None:
            self.verdict.absent += 1
        self.verdict.choices += 1
        if not self._decider.govern_again(view, event.time_us, event.learned):
            self.verdict.differing.append((event.number, "what the learned policy chose"))


def _plain(plan: Any) -> Any:
    return [list(row) for row in plan]
