"""Records what tuners did in a run: every adjustment with its reason and its expected gain.

A `Watch` runs after the last tuner and reads the state before a plan is carried out; when the twin
reports that it was, the watch records what the tuners changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from flyball.core.cluster import Cluster
from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.protocols import Outlook
from flyball.core.records import CAP_LEVELS, CAP_STEP, Records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, to_s
from flyball.core.workload import Workload
from flyball.schedule.explain import Names, gain_unit, is_tuned, reason_text, reason_token
from flyball.twin.tuning import Tuning

ACTIONS = {
    Reason.GREW: "resize",
    Reason.SHRANK: "resize",
    Reason.CHANGED_TYPE: "move",
    Reason.SIZED: "start",
    Reason.SHARED: "share",
    Reason.PARTED: "part",
    Reason.CAPPED: "cap",
    Reason.UNCAPPED: "cap",
    Reason.SENT_TO_SLEEP: "sleep",
    Reason.WOKEN: "wake",
    Reason.MOVED: "move",
    Reason.SCALED: "replicas",
    Reason.LET_IN: "start",
    Reason.OVERDUE: "start",
    Reason.YIELDED: "preempt",
    Reason.RELEASED: "release",
    Reason.RATIONED: "budget",
    Reason.OVER_BUDGET: "preempt",
    Reason.PAUSED: "pause",
    Reason.OUTBID: "preempt",
}
ASLEEP, AWAKE = "asleep", "awake"

Where = dict[str, Any] | str | float | None
"""The devices held, a state of a node or job, a number of replicas or watts; None = no devices."""


@dataclass(frozen=True)
class Adjustment:
    """One change by a tuner.

    Attributes:
        time_s: since the clock's origin, as the trace has it.
        subject: the job, the node, the service or the cluster.
        action: resize, move, start, preempt, share, part, cap, sleep, wake, replicas, release or
            budget.
        before, after: where it was and where it is now.
        reason: token.
        sentence: the reason for people.
        gain: predicted, in `unit`.
    """

    time_s: float
    subject: str
    action: str
    before: Where
    after: Where
    reason: str
    sentence: str
    gain: float
    unit: str

    def as_dict(self) -> dict[str, Any]:
        """Return a line of the file."""
        row = asdict(self)
        row["from"], row["to"] = row.pop("before"), row.pop("after")
        return row


class Watch:
    """Records what tuners do; `adjustments` has it in order of time."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self.adjustments: list[Adjustment] = []
        self._names = Names.of(workload.ids.tolist(), cluster.groups)
        self._pending: list[Adjustment] = []

    def over(self, tuning: Tuning) -> Tuning:
        """Return the same tuning, watched."""
        return replace(tuning, tuners=(*tuning.tuners, self), note=self.note)

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan unchanged; what it would change is pending until it is carried out."""
        self._pending = list(self._read(state, plan))
        return plan

    def note(self, now_us: int, plan: Records) -> None:
        """Record the pending adjustments: the plan was carried out."""
        self.adjustments += self._pending
        self._pending = []

    def _read(self, state: State, plan: Records) -> Iterator[Adjustment]:
        of_jobs = (ActionKind.START, ActionKind.PREEMPT, ActionKind.CAP)
        rows = sorted(
            (row for row in plan if row.kind in of_jobs),
            key=lambda row: int(row.job),
        )
        for job, mine in groupby(rows, key=lambda row: int(row.job)):
            yield from self._job(state, job, list(mine))
        for row in plan:
            if row.kind == ActionKind.REPLICAS:
                before = int(state.groups["limit"][row.job])
                yield self._adjustment(state, row, f"service {row.job}", before, int(row.level))
            elif row.kind in (ActionKind.SLEEP, ActionKind.WAKE):
                node = self._names.node(state, int(row.node))
                slept = state.nodes.sleeps_us[row.node] <= state.clock[0].now_us
                after = ASLEEP if row.kind == ActionKind.SLEEP else AWAKE
                yield self._adjustment(state, row, node, ASLEEP if slept else AWAKE, after)
            elif row.kind == ActionKind.RELEASE:
                name = self._names.job(int(row.job))
                yield self._adjustment(state, row, name, "deferred", "pending")
            elif row.kind == ActionKind.BUDGET:
                before_w = float(state.clock[0].budget_w)
                if round(before_w) != round(float(row.gain)):
                    yield self._adjustment(state, row, "cluster", before_w, float(row.gain))

    def _job(self, state: State, job: int, rows: list[Any]) -> Iterator[Adjustment]:
        """Yield what a plan does to one job, as one adjustment: it may be preempted and restarted.

        Args:
            state: before the plan.
            job: index.
            rows: of the plan that are about the job.
        """
        starts = [row for row in rows if row.kind == ActionKind.START]
        before = self._held(state, job)
        name = self._names.job(job)
        after: Where = None
        if starts:
            nodes = [int(row.node) for row in starts]
            devices = sum(int(row.mask).bit_count() for row in starts)
            after = self._place(state, nodes, devices, int(starts[0].level))
        elif rows[0].kind == ActionKind.CAP and isinstance(before, dict):
            after = {**before, "cap": _part(int(rows[0].level))}
        tuned = next((row for row in (*starts, *rows) if is_tuned(row)), None)
        if tuned is not None:
            yield self._adjustment(state, tuned, name, before, after)
        elif starts and starts[0].level and isinstance(after, dict):
            yield self._capped(state, starts[0], name, after)

    def _capped(self, state: State, start: Any, name: str, after: dict[str, Any]) -> Adjustment:
        """Return the cap that a tuner put on a job which the policy starts."""
        row = start.copy()
        row.reason, row.kind = Reason.CAPPED, ActionKind.CAP
        row.gain = _saved_w(state, int(start.job), int(start.node), after["devices"], row.level)
        return self._adjustment(state, row, name, None, after)

    def _adjustment(
        self, state: State, row: Any, subject: str, before: Where, after: Where
    ) -> Adjustment:
        now_us = int(state.clock[0].now_us)
        return Adjustment(
            to_s(now_us),
            subject,
            ACTIONS[Reason(int(row.reason))],
            before,
            after,
            reason_token(row),
            reason_text(row, self._names, now_us),
            float(row.gain),
            gain_unit(row),
        )

    def _held(self, state: State, job: int) -> Where:
        """Return where a job runs now; None = nowhere."""
        run = state.runs[job]
        if run.status != Status.RUNNING:
            return None
        nodes, row = [], int(run.first_row)
        while row >= 0:
            nodes.append(int(state.rows[row].node))
            row = int(state.rows[row].next)
        return self._place(state, nodes, int(run.devices), int(run.cap))

    def _place(self, state: State, nodes: list[int], devices: int, level: int) -> Where:
        pool = int(state.nodes.pool[nodes[0]])
        return {
            "type": self._names.type(pool),
            "devices": devices,
            "nodes": [self._names.node(state, node) for node in sorted(nodes)],
            "cap": _part(level),
        }


def _part(level: int) -> float:
    """Return a cap as the part of its draw that a device may have."""
    return round(1.0 - CAP_STEP * level, 2)


def _saved_w(state: State, job: int, node: int, devices: int, level: int) -> float:
    """Return the watts that a cap saves for a job that starts under it."""
    pool = int(state.nodes.pool[node])
    draw_w = float(state.rates.watts[state.jobs.profile[job] * len(state.pools) + pool])
    capped_w = draw_w * float(state.caps.power[pool * CAP_LEVELS + level])
    floor_w = float(state.pools.idle_w[pool])
    share = devices * int(state.jobs.milli[job]) / MILLI_PER_DEVICE
    return max(0.0, draw_w - max(capped_w, floor_w)) * share
