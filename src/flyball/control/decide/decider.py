"""One decision: from the live state to a plan, and from the plan to the events to record.

    decision = decider.decide(unrecorded, now_us)

`unrecorded` are events that the live state does not hold yet and that are recorded together with
the decision, which takes them into account. All inputs of a decision are in the journal, so it can
be repeated (`control.decide.verify`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.control.decide.day_budget import DayBudget
from flyball.control.decide.governing import Governs, Lately, Moment, cap_events
from flyball.control.decide.job_columns import JobColumns
from flyball.control.decide.lead import Lead
from flyball.control.decide.tuning_rounds import Tuning, reason_of, tuning_events
from flyball.control.jobs.adjustments import held_devices
from flyball.control.jobs.live_state import LiveState
from flyball.core.cluster import Cluster
from flyball.core.codes import ActionKind
from flyball.core.events import (
    CancelRequested,
    Decided,
    Ended,
    Event,
    Intended,
    NodeChanged,
    OthersChanged,
    Released,
    Requeued,
    Resized,
    Stopping,
)
from flyball.core.forecast import NO_OUTLOOK, Outlook, outlook_as_json
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.knobs import Knobs, Preempt
from flyball.core.records import Records
from flyball.core.signals import Signal
from flyball.core.units import US_PER_S, to_us
from flyball.physics import catalogue
from flyball.physics.power import host_w
from flyball.predict.signals import signal_outlook
from flyball.twin.live import Snapshot, View

START, PREEMPT = int(ActionKind.START), int(ActionKind.PREEMPT)
FREEING = (Ended, Requeued, CancelRequested, Released, NodeChanged, OthersChanged)
"""Events after which a pending job may fit, or is no longer held."""
POLICY = "policy"
"""Who moves a job on behalf of a policy."""
Plan = list[list[Any]]
"""Actions as JSON lists: kind, job id, node, mask, thousandths, reason, gain, perhaps a level."""


@dataclass(frozen=True)
class Decision:
    """Holds one decision.

    Attributes:
        snapshot: the state after the plan, to explain it.
        ids: ids of the jobs in it, by index.
        events: the events to record: the decision, then starts and stops.
    """

    snapshot: Snapshot
    ids: Any
    events: tuple[Event, ...]

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """Return what a learned policy chose in it; None = it was not its turn."""
        decided = self.events[0]
        assert isinstance(decided, Decided)
        return decided.learned


IN_PLACE_US = 2 * US_PER_S
"""Time a job on cores loses when its size changes in place: a step or two."""


class Decider:
    """Makes decisions for one cluster with one set of knobs."""

    def __init__(
        self,
        live_state: LiveState,
        columns: JobColumns,
        cluster: Cluster,
        policy: str,
        knobs: Knobs,
        tuning: Tuning | None = None,
        governor: Governs | None = None,
    ) -> None:
        self.live_state, self.columns, self.cluster = live_state, columns, cluster
        self.policy, self.knobs, self._base = policy, knobs, knobs
        self.tuning = tuning or Tuning()
        self.governor, self._lately = governor, Lately()
        self.lead = Lead(knobs)
        """The class pathway that leads, if the cluster follows one."""
        self.most = cluster.device_count
        """Maximum number of jobs a decision can start, without those on fractions of devices."""
        self.signals: tuple[Signal | None, Signal | None] = (None, None)
        """Price and carbon intensity."""
        self.budget: DayBudget | None = None
        """What the running day has cost, and the limit of the draw; None = there is no budget."""
        self._limit_w = 0.0
        self.outlook = NO_OUTLOOK
        """Forecasts for tuners; the decision's event records what they were given."""
        self.number = 0
        self._wishes_seen = self._wishes_decided = -1
        self._round = self._last_round = -1

    def adopt(self, cluster: Cluster) -> None:
        """Decide for other nodes from now on."""
        self.cluster, self.most = cluster, cluster.device_count

    def decide(self, unrecorded: Sequence[Event], now_us: int) -> Decision | None:
        """Make a decision, if there is anything to decide."""
        self.follow_lead(now_us)
        is_round, tunes = self._round_due(now_us), self.tuning.due(now_us)
        governs = self.governor is not None and self.governor.due(now_us)
        with self.live_state.lock:
            seen, self._wishes_seen = self.live_state.seq, self.live_state.wishes
            freed = any(isinstance(event, FREEING) for event in unrecorded)
            again = self.budget is not None and self.budget.due(now_us)
            wished = self._wishes_seen != self._wishes_decided
            if not (freed or is_round or tunes or governs or again or wished):
                return None
            changes = self.live_state.fold(unrecorded)
            view, ids = self.view_after(unrecorded, changes)
            jobs: Mapping[int, Job] = ChainMap(changes, self.live_state.jobs)
            busy = list({**self.live_state.busy, **changes}.values())
        running, making_room = len(np.unique(view.row_job)), _is_making_room(busy)
        is_round, tunes = is_round and not making_room, tunes and not making_room
        changes_running = tunes or governs or (is_round and self.knobs.moves)
        if len(ids) == running and not (changes_running and running):
            self._note_draw(view, now_us)
            return None
        signals = self.values_at(now_us)
        view = view.at_prices(signals)
        learned = self._govern(view, now_us) if governs else None
        snapshot, plan, digest = self.make(view, ids, now_us, is_round)
        if self.budget is not None:
            self.budget.drew(float(snapshot.state.clock[0].power_w), now_us)
        number = self.number + 1
        decided = Decided(now_us, number, seen, len(unrecorded), is_round, digest, plan)
        decided = replace(decided, signals=signals or None, pathway=self.lead.label)
        decided = replace(decided, learned=learned)
        events = plan_events(plan, jobs, now_us, number)
        if self.governor is not None:
            stopped = {row[1] for row in plan if row[0] == PREEMPT}
            staying = [jobs[job.id] for job in busy if job.id not in stopped and job.id in jobs]
            events += cap_events(staying, self.knobs, now_us)
        if tunes:
            load = self.outlook if self.tuning.forecast else NO_OUTLOOK
            outlook = signal_outlook(*self.signals, now_us, load)
            adjusted = self.adjust(snapshot, ids, outlook)
            decided = replace(decided, adjusted=adjusted, forecast=outlook_as_json(outlook))
            # Tuners do not change what the policy has just decided.
            planned = {row[1] for row in plan}
            tuned_rows = [row for row in adjusted if row[1] not in planned]
            taken = [(row.node, row.mask) for job in busy for row in job.rows]
            taken += [(row[2], row[3]) for row in plan if row[0] == START]
            events += tuning_events(tuned_rows, jobs, taken, now_us, number, self.columns.in_place)
        return Decision(snapshot, ids, (decided, *events))

    def values_at(self, now_us: int) -> dict[str, float]:
        """Return price, carbon and the limit of the draw with its account, as they are recorded."""
        values = signal_values(self.signals, now_us)
        if self.budget is not None:
            values |= self.budget.values(now_us)
            self._limit_w = values["limit_w"]
        return values

    def _note_draw(self, view: View, now_us: int) -> None:
        """Note what the cluster draws though there is nothing to decide."""
        if self.budget is None:
            return
        if not len(view.workload):  # no snapshot is made of nothing
            self.budget.drew(idle_draw_w(self.cluster), now_us)
            return
        state = Snapshot(self.cluster, view, self.knobs, now_us).state
        self.budget.drew(float(state.clock[0].power_w), now_us)

    def follow_lead(self, now_us: int) -> None:
        """Take the knobs and tuners of the leading pathway, if the cluster follows pathways."""
        if self.columns.follows_lead:
            with self.live_state.lock:
                self.lead.choose(self.columns.leading, now_us)
            self._use_lead()

    def follow(self, pathway: str) -> None:
        """Take the knobs and tuners of the pathway that a recorded decision followed."""
        self.lead.follow(pathway)
        self._use_lead()

    def _use_lead(self) -> None:
        self.knobs, self.tuning.added = self.lead.knobs, self.lead.tuners

    def _govern(self, view: View, now_us: int) -> Mapping[str, Any]:
        """Let the learned policy choose the knobs of the epoch that begins."""
        assert self.governor is not None
        lately = self._lately.numbers(view, self.cluster, len(self.live_state.ended), now_us)
        record = self.governor.choose(self._moment(view, now_us, lately))
        self.knobs = self.governor.knobs(record)
        return record

    def govern_again(self, view: View, now_us: int, record: Mapping[str, Any]) -> bool:
        """Take the knobs of a recorded choice; return whether it is made again the same."""
        same = True
        if self.governor is not None:
            moment = self._moment(view, now_us, record["inputs"]["lately"])
            same = self.governor.repeat(moment, record) == record
            self.governor.settle()
        changed = [f"{name}={value}" for name, value in record["knobs"].items()]
        self.knobs = self._base.with_settings(changed)
        return same

    def _moment(self, view: View, now_us: int, lately: Sequence[float]) -> Moment:
        state = Snapshot(self.cluster, view, self.knobs, now_us).state
        return Moment(state, self.knobs, now_us, lately, self.signals)

    def adjust(self, snapshot: Snapshot, ids: Any, outlook: Outlook) -> Plan:
        """Return the tuners' actions on the state after a decision."""
        jobs = snapshot.state.jobs.view(np.ndarray)
        usual = jobs["restart_us"].copy()
        if self.columns.in_place:
            jobs["restart_us"] = IN_PLACE_US
        try:
            return listed(self.tuning.adjust(snapshot.state, outlook), ids)
        finally:
            jobs["restart_us"] = usual

    def launched(self, spec: JobSpec) -> JobSpec:
        """Return a job as it is launched: told its class, if it follows the pathway of it."""
        variables = self.columns.classes.environment(spec)
        return replace(spec, env={**variables, **spec.env}) if variables else spec

    def settle(self, decision: Decision | None) -> None:
        """Note that the last decision is on record: only a new event calls for another one."""
        self._wishes_decided, self._last_round = self._wishes_seen, self._round
        self.tuning.settle()
        if decision is not None and self.governor is not None:
            self.governor.settle()
            if decision.learned:
                self._lately.settle()
        self.number += decision is not None

    def make(self, view: View, ids: Any, now_us: int, is_round: bool) -> tuple[Snapshot, Plan, str]:
        """Return the state after a decision, its plan, and a fingerprint of its inputs."""
        digest = view.digest(self.cluster, self.knobs, now_us)
        snapshot = Snapshot(self.cluster, view, self.knobs, now_us)
        return snapshot, listed(snapshot.decide(is_round), ids), digest

    def view_after(self, events: Sequence[Event], changes: Mapping[int, Job]) -> tuple[View, Any]:
        """Return the view of a decision after unrecorded events. Hold the lock of the live state.

        Args:
            changes: what these events change of jobs.
        """
        down, others = self.live_state.down_after(events), self.live_state.others_after(events)
        return self.view_with(changes, self.most, down, others)

    def view_with(
        self,
        changes: Mapping[int, Job],
        most: int = 0,
        down: Set[int] | None = None,
        others: Mapping[int, tuple[int, int, int]] | None = None,
    ) -> tuple[View, Any]:
        """Return the view of the live state with changed jobs. Hold the lock of the live state.

        Args:
            changes: jobs as unrecorded events leave them (`LiveState.fold`).
            most: see `JobColumns.view`; decisions use `self.most`.
            down: nodes that are down after unrecorded events; None = those of the live state.
            others: what others have of nodes, likewise.
        """
        before = {
            job_id: self.live_state.jobs[job_id]
            for job_id in changes
            if job_id in self.live_state.jobs
        }
        ended = {job.id: job.state for job in changes.values() if job.state.final}
        self.columns.update(changes)
        try:
            ended_states = ChainMap(ended, self.live_state.ended)  # type: ignore[arg-type]  # only read
            down_nodes = self.live_state.down if down is None else down
            view, ids = self.columns.view(ended_states, down_nodes, most)
            taken = self.live_state.others if others is None else others
            return replace(view, limit_w=self._limit_w, taken=taken_rows(taken)), ids
        finally:
            for job_id in changes.keys() - before.keys():
                self.columns.drop(job_id)  # a job that is not submitted yet
            self.columns.update(before)

    def _round_due(self, now_us: int) -> bool:
        if self.knobs.preempt != Preempt.ROUNDS:
            return False
        self._round = now_us // to_us(self.knobs.round_s)
        return self._last_round not in (-1, self._round)


def taken_rows(others: Mapping[int, tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    """Return what others have of nodes as rows of a view."""
    rows = [[node, *part] for node, part in sorted(others.items())]
    return np.array(rows, np.int64).reshape(len(rows), 4)


def idle_draw_w(cluster: Cluster) -> float:
    """Return what a cluster draws while no job runs."""
    described = [(group, catalogue.get(group.device)) for group in cluster.groups]
    return sum(
        group.count * (host_w(device, group.devices) + group.devices * device.idle_w)
        for group, device in described
    )


def signal_values(signals: tuple[Signal | None, Signal | None], now_us: int) -> dict[str, float]:
    """Return the present values of price and carbon, as a view and a decision hold them."""
    names = ("price_per_kwh", "carbon_g_per_kwh")
    return {
        name: signal.value_at(now_us)
        for name, signal in zip(names, signals, strict=True)
        if signal is not None
    }


def _is_making_room(jobs: Any) -> bool:
    """Whether a preempted job still holds its devices; until then no other is preempted."""
    return any(job.stopping == "preempt" for job in jobs)


def listed(plan: Records, ids: Any) -> Plan:
    """Return a plan with job ids, as JSON lists."""
    jobs = np.where(plan["job"] >= 0, ids[plan["job"]], -1) if len(ids) else plan["job"]
    named = {
        name: plan[name] for name in ("kind", "job", "node", "mask", "milli", "reason", "gain")
    }
    named["job"] = jobs
    rows = zip(*(column.tolist() for column in named.values()), strict=True)
    levels = plan["level"].tolist()
    return [[*row, level] if level else [*row] for row, level in zip(rows, levels, strict=True)]


def plan_events(plan: Plan, jobs: Mapping[int, Job], now_us: int, number: int) -> list[Event]:
    """Return the starts and stops of a plan as events.

    A job whose devices others must leave first is not started yet: when they have left, there is
    another decision. A job that moves is told where to go on once it has stopped.
    """
    events: list[Event] = []
    leaving: dict[int, int] = {}
    starts: dict[int, list[tuple[int, int]]] = {}
    for kind, job_id, node, mask, *_rest in plan:
        if kind == START:
            starts.setdefault(job_id, []).append((node, mask))
    for kind, job_id, _node, _mask, _milli, reason, gain, *_rest in plan:
        if kind == PREEMPT:
            job, moves_to = jobs[job_id], starts.pop(job_id, [])
            for row in job.rows:
                leaving[row.node] = leaving.get(row.node, 0) | row.mask
            if job.spec.preemptible and job.state == JobState.RUNNING:
                if moves_to:
                    devices, why = held_devices(job), reason_of(reason, gain)
                    stopped = Resized(now_us, job.id, job.attempt, devices, (), *why, POLICY)
                    events.append(replace(stopped, wants=moves_to))
                events.append(Stopping.preempt(job, now_us))
    for job_id, rows in starts.items():
        job = jobs[job_id]
        if not any(_must_wait(job, mask, leaving.get(node)) for node, mask in rows):
            events.append(Intended.next_attempt(job, now_us, rows, number))
    return events


def _must_wait(job: Job, mask: int, leaving: int | None) -> bool:
    """Whether part of a job needs resources of jobs that are leaving its node.

    Devices are tracked one by one; for the cores and memory of the host it is only known that the
    plan counted them as free.
    """
    if leaving is None:
        return False
    asks_host = job.spec.memory_mib > 0 or job.spec.gpus > 0 or not mask
    return asks_host or bool(leaving & mask)
