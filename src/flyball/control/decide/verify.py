"""Make every recorded decision again from the journal, and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flyball.control.decide.decider import Decider
from flyball.control.decide.job_columns import Table
from flyball.control.decide.tuning_rounds import Tuning
from flyball.control.jobs.live_state import Book
from flyball.control.jobs.request import Demand, cluster_of, nodes_of
from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.core.live import Event, EventKind
from flyball.core.protocols import Tuner


@dataclass
class Verdict:
    """What came of it.

    Attributes:
        decisions: made again.
        actions: in their plans.
        differing: numbers of decisions that came out otherwise, with what differs.
    """

    decisions: int = 0
    actions: int = 0
    differing: list[tuple[int, str]] = field(default_factory=list)


MakeTuners = Callable[[Sequence[str], Sequence[str]], dict[str, Tuner]]


class Verifier:
    """Follows the events of a journal, in order.

    Args:
        tuners: makes the tuners that a control plane says it had, with their settings.
    """

    def __init__(self, tuners: MakeTuners | None = None) -> None:
        self._tuners = tuners or (lambda names, settings: {})
        self.verdict = Verdict()
        self._book = Book()
        self._decider: Decider | None = None
        self._waiting: list[tuple[int, Event]] = []

    def follow(self, events: Iterable[tuple[int, Event]]) -> Verdict:
        """Take the next events."""
        for seq, event in events:
            if event["kind"] == EventKind.OPENED:
                self._absorb(seq)
                self._open(event)
            elif event["kind"] == EventKind.DECIDED:
                self._check(seq, event)
            self._waiting.append((seq, event))
        return self.verdict

    def _open(self, event: Event) -> None:
        """A control plane began: perhaps with another policy, or on another machine."""
        self._book.down.clear()  # it takes its nodes to be up until it hears otherwise
        nodes = nodes_of(event)
        table = Table(Demand(nodes))
        table.update(self._book.jobs)
        self._book.watchers = [table.update]
        knobs = Knobs().with_settings([f"{k}={v}" for k, v in event["knobs"].items()])
        cluster = cluster_of(nodes, event["cluster"], event["budget_w"])
        tuning = Tuning(self._tuners(event.get("tuners", ()), event.get("tuner_settings", ())))
        self._decider = Decider(self._book, table, cluster, event["policy"], knobs, tuning)

    def _absorb(self, up_to: int) -> None:
        """Let the book have the events up to this number."""
        ready = [each for each in self._waiting if each[0] <= up_to]
        self._waiting = self._waiting[len(ready) :]
        for seq, event in ready:
            self._book.absorb(seq, self._book.fold([event]), [event])

    def _check(self, seq: int, event: Event) -> None:
        if self._decider is None:
            why = f"decision {event['number']} comes before any control plane began"
            raise BadInput(f"the journal is damaged ({why})", "put back a backup")
        self._absorb(int(event["seen"]))
        own = [each for _seq, each in self._waiting[len(self._waiting) - int(event["own"]) :]]
        view, ids = self._decider.look(own, self._decider.most)
        made = self._decider.make(view, ids, int(event["time_us"]), bool(event["is_round"]))
        self.verdict.decisions += 1
        self.verdict.actions += len(event["plan"]) + len(event.get("adjusted", ()))
        if made[2] != event["digest"]:
            self.verdict.differing.append((int(event["number"]), "what it saw"))
        elif made[1] != _plain(event["plan"]):
            self.verdict.differing.append((int(event["number"]), "its plan"))
        elif "adjusted" in event:
            forecast = self._decider.tuning.recalled(event["forecast"])
            if self._decider.adjust(made[0], ids, forecast) != _plain(event["adjusted"]):
                self.verdict.differing.append((int(event["number"]), "what tuners made of it"))


def _plain(plan: Any) -> Any:
    return [list(row) for row in plan]
