"""One decision: from the book to a plan, and from the plan to what is to be recorded.

    made = decider.decide(own, now_us)

`own` are events that are not in the book yet and will be recorded together with the decision:
it sees them as if they were. Everything it depends on is in the journal, so it can be made again
(`control.verify`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.control.decide.job_columns import Table
from flyball.control.decide.tuning_rounds import Tuning, tuned_acts
from flyball.control.jobs.live_state import Book
from flyball.core.cluster import Cluster
from flyball.core.codes import ActionKind
from flyball.core.jobs import Job, JobState
from flyball.core.knobs import Knobs, Preempt
from flyball.core.live import Event, EventKind
from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.units import US_PER_S, to_us
from flyball.twin.live import Snapshot, View

START, PREEMPT = int(ActionKind.START), int(ActionKind.PREEMPT)
FREEING = (EventKind.ENDED, EventKind.REQUEUED, EventKind.CANCEL, EventKind.RELEASED)
"""Events after which jobs may fit that did not before, or that end somebody's waiting."""
Plan = list[list[Any]]
"""Actions as JSON holds them: kind, job id, node, mask, thousandths, reason, gain, and the level if
it has one."""


@dataclass(frozen=True)
class Decision:
    """What was decided.

    Attributes:
        snapshot: the state after the plan; `why` asks it.
        ids: the jobs in it, by index.
        events: what to record: the decision, then starts and stops.
    """

    snapshot: Snapshot
    ids: Any
    events: tuple[Event, ...]


IN_PLACE_US = 2 * US_PER_S
"""What a change of size costs a job that goes on with other cores: a step or two between them."""


class Decider:
    """Decides for one cluster by one set of knobs."""

    def __init__(
        self,
        book: Book,
        table: Table,
        cluster: Cluster,
        policy: str,
        knobs: Knobs,
        tuning: Tuning | None = None,
    ) -> None:
        self.book, self.table, self.cluster = book, table, cluster
        self.policy, self.knobs = policy, knobs
        self.tuning = tuning or Tuning()
        self.most = cluster.device_count
        """One decision starts no more jobs than there are devices (of those without fractions)."""
        self.forecasts: Mapping[str, Any] = {}
        """Loads that are expected, by series (docs/concept/start-times.md). No policy of the shelf
        reads them; what tuners are given goes into the decision's event."""
        self.number = 0
        self._heard = self._settled = -1
        self._round = self._last_round = -1

    def decide(self, own: Sequence[Event], now_us: int) -> Decision | None:
        """Decide now, if there is anything to decide."""
        is_round, tunes = self._round_due(now_us), self.tuning.due(now_us)
        with self.book.lock:
            seen, self._heard = self.book.seq, self.book.wishes
            freed = any(event["kind"] in FREEING for event in own)
            if not (freed or is_round or tunes or self._heard != self._settled):
                return None
            view, ids = self.look(own, self.most)
            changes = self.book.fold(own)
            jobs: Mapping[int, Job] = ChainMap(changes, self.book.jobs)
            busy = list({**self.book.busy, **changes}.values())
        running, making_room = len(np.unique(view.row_job)), _is_making_room(busy)
        is_round, tunes = is_round and not making_room, tunes and not making_room
        if len(ids) == running and not (tunes and running):
            return None
        forecast = self.tuning.expected(self.forecasts) if tunes else None
        snapshot, plan, digest = self.make(view, ids, now_us, is_round)
        number = self.number + 1
        about = {"kind": EventKind.DECIDED, "time_us": now_us, "number": number, "seen": seen}
        about |= {"own": len(own), "is_round": is_round, "digest": digest, "plan": plan}
        acts = acts_of(plan, jobs, now_us, number)
        if tunes:
            adjusted = self.adjust(snapshot, ids, forecast)
            about |= {"adjusted": adjusted, "forecast": self.tuning.noted(forecast)}
            decided = {row[1] for row in plan}  # what the policy has just decided is left alone
            own_rows = [row for row in adjusted if row[1] not in decided]
            taken = [(each.node, each.mask) for job in busy for each in job.rows]
            taken += [(row[2], row[3]) for row in plan if row[0] == START]
            acts += tuned_acts(own_rows, jobs, taken, now_us, number, self.table.in_place)
        return Decision(snapshot, ids, (about, *acts))

    def adjust(self, snapshot: Snapshot, ids: Any, forecast: Forecast | None) -> Plan:
        """What the tuners would do after a decision was carried out."""
        jobs = snapshot.state.jobs.view(np.ndarray)
        usual = jobs["restart_us"].copy()
        if self.table.in_place:
            jobs["restart_us"] = IN_PLACE_US
        try:
            return listed(self.tuning.adjust(snapshot.state, forecast), ids)
        finally:
            jobs["restart_us"] = usual

    def settle(self, decision: Decision | None) -> None:
        """What was decided last is on record: only something new calls for another decision."""
        self._settled, self._last_round = self._heard, self._round
        self.tuning.settle()
        self.number += decision is not None

    def make(self, view: View, ids: Any, now_us: int, is_round: bool) -> tuple[Snapshot, Plan, str]:
        """The decision itself: the state after it, the plan, and a fingerprint of what it saw."""
        digest = view.digest(self.cluster, self.knobs, now_us)
        snapshot = Snapshot(self.cluster, view, self.knobs, now_us)
        return snapshot, listed(snapshot.decide(is_round), ids), digest

    def look(self, own: Sequence[Event], most: int = 0) -> tuple[View, Any]:
        """The view with events that are not in the book yet. Hold the book's lock.

        Args:
            own: these events.
            most: see `Table.view`; decisions look at `self.most`.
        """
        changes = self.book.fold(own)
        before = {each: self.book.jobs[each] for each in changes if each in self.book.jobs}
        ended = {job.id: job.state for job in changes.values() if job.state.final}
        self.table.update(changes)
        try:
            known = ChainMap(ended, self.book.ended)  # type: ignore[arg-type]  # only read
            return self.table.view(known, self.book.down, most)
        finally:
            for each in changes.keys() - before.keys():
                self.table.drop(each)  # a job that is only thought of
            self.table.update(before)

    def _round_due(self, now_us: int) -> bool:
        if self.knobs.preempt != Preempt.ROUNDS:
            return False
        self._round = now_us // to_us(self.knobs.round_s)
        return self._last_round not in (-1, self._round)


def _is_making_room(jobs: Any) -> bool:
    """Whether a job that was set aside still holds its devices: nobody else gives way till then."""
    return any(job.stopping == "preempt" for job in jobs)


def listed(plan: Records, ids: Any) -> Plan:
    """A plan with the jobs' own ids, as JSON holds it."""
    jobs = np.where(plan["job"] >= 0, ids[plan["job"]], -1) if len(ids) else plan["job"]
    named = {
        name: plan[name] for name in ("kind", "job", "node", "mask", "milli", "reason", "gain")
    }
    named["job"] = jobs
    rows = zip(*(each.tolist() for each in named.values()), strict=True)
    levels = plan["level"].tolist()
    return [[*row, level] if level else [*row] for row, level in zip(rows, levels, strict=True)]


def acts_of(plan: Plan, jobs: Mapping[int, Job], now_us: int, number: int) -> list[Event]:
    """What a plan makes the loop do, as events.

    A job that starts where others must leave first is not started yet: when they are gone there
    is another decision.
    """
    acts: list[Event] = []
    leaving: dict[int, int] = {}
    starts: dict[int, list[tuple[int, int]]] = {}
    for kind, job_id, node, mask, *_rest in plan:
        if kind == START:
            starts.setdefault(job_id, []).append((node, mask))
        elif kind == PREEMPT:
            job = jobs[job_id]
            for row in job.rows:
                leaving[row.node] = leaving.get(row.node, 0) | row.mask
            if job.spec.preemptible and job.state == JobState.RUNNING:
                about = {"time_us": now_us, "job": job_id, "attempt": job.attempt}
                acts.append({"kind": EventKind.STOPPING, **about, "why": "preempt"})
    for job_id, rows in starts.items():
        job = jobs[job_id]
        if not any(_must_wait(job, mask, leaving.get(node)) for node, mask in rows):
            about = {"time_us": now_us, "job": job_id, "attempt": job.attempt + 1}
            acts.append({"kind": EventKind.INTENDED, **about, "rows": rows, "decision": number})
    return acts


def _must_wait(job: Job, mask: int, leaving: int | None) -> bool:
    """Whether a part of a job needs what those hold who are leaving its node.

    Devices are told apart; of the host's cores and memory it is only known that they were
    reckoned with as free.
    """
    if leaving is None:
        return False
    asks_host = job.spec.memory_mib > 0 or job.spec.gpus > 0 or not mask
    return asks_host or bool(leaving & mask)
