"""Tuners on a live cluster: when their rounds run, and how their actions become events.

A tuner (`core.protocols.Tuner`) sees the state after the policy's plan and returns further actions:
CAP, and PREEMPT followed by START of the same job, which changes its size or place. Tuners are
pure, and their inputs are on record, so a replay gives the same actions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from flyball.control.jobs.adjustments import held_devices, share_of, size_of
from flyball.core.codes import ActionKind, Reason
from flyball.core.events import Capped, Event, Intended, Resized, Rows, Stopping
from flyball.core.forecast import Outlook
from flyball.core.jobs import Job, JobState
from flyball.core.live import Capabilities
from flyball.core.protocols import Tuner
from flyball.core.records import ACTION, CAP_STEP, Records, records
from flyball.core.state import State
from flyball.core.units import to_us
from flyball.tune.registry import LIVE, RULES

START, PREEMPT, CAP = (int(ActionKind[name]) for name in ("START", "PREEMPT", "CAP"))
LEFT_OUT = {
    START: "sizes and places of jobs are not changed: the engine cannot preempt a job",
    PREEMPT: "jobs are not moved: the engine cannot preempt a job",
    CAP: "jobs are not capped: the engine cannot limit what a job uses of its devices",
    int(ActionKind.SLEEP): "nodes are not put to sleep: no engine here can; they stay awake",
    int(ActionKind.WAKE): "nodes are not woken: no engine here can put them to sleep",
    int(ActionKind.REPLICAS): "services are not scaled: no engine here runs them",
}
"""Actions that an engine may be unable to carry out, each with what happens instead. Control planes
of earlier versions recorded them all the same."""
NEEDS = {CAP: "cap", PREEMPT: "preempt", int(ActionKind.SLEEP): "sleep"}
"""What an engine must be able to do for an action."""
NEEDED_BY = {"power": ("cap", "sleep"), "elastic": ("preempt",), "balance": ("preempt",)}
"""What an engine must be able to do for a built-in tuner to be of any use: one of these."""
TUNE_S = 60.0
"""Default interval between two rounds of tuners."""
TUNER = "tuner"
"""Who changes a job on behalf of a tuner."""

logger = logging.getLogger("flyball.control")


def rules_of(tuners: Iterable[str]) -> list[int]:
    """Return the version of each tuner's rule."""
    return [RULES.get(name, 1) for name in tuners]


class Tuning:
    """Holds the tuners that adjust decisions, and the interval of their rounds.

    Args:
        tuners: tuners by name, in the order in which they run.
        every_s: seconds between two rounds.
        settings: changed settings of the tuners, as stated (`elastic.gap_s=120`).
        forecast: whether they are given what is forecast.

    Attributes:
        added: further tuners, of the leading pathway; those named above take precedence.
        left_out: what they asked for and the engine cannot do, a sentence each.
        can: what the engine can do; None = not stated, as in journals of earlier versions.
    """

    def __init__(
        self,
        tuners: Mapping[str, Tuner] | None = None,
        every_s: float = TUNE_S,
        settings: Sequence[str] = (),
        forecast: bool = True,
    ) -> None:
        self.tuners = dict(tuners or {})
        self.added: Mapping[str, Tuner] = {}
        self.forecast = forecast
        self.left_out: list[str] = []
        self.can: Capabilities | None = None
        self.every_s = every_s
        self.settings = list(settings)
        self._round = self._last = -1

    def due(self, now_us: int) -> bool:
        """Whether a round is due since the last one on record."""
        if not self.tuners and not self.added:
            return False
        self._round = now_us // to_us(self.every_s)
        return self._last != self._round

    def settle(self) -> None:
        """Note that the last round is on record."""
        self._last = self._round

    def adjust(self, state: State, outlook: Outlook) -> Records:
        """Return the tuners' actions; none if one of them fails: the queue continues without."""
        plan = records(0, ACTION)
        chosen = {**self.added, **self.tuners}
        for name in sorted(chosen, key=_order):
            try:
                plan = self._possible(chosen[name].adjust(state, outlook, plan))
            except Exception:
                logger.exception("tuner %s failed; nothing is tuned in this round", name)
                return records(0, ACTION)
        return plan

    def _possible(self, plan: Records) -> Records:
        """Return the actions that the engine can carry out; say once of each kind it cannot.

        The start of a job that cannot be preempted for it is left out with the preemption.
        """
        if self.can is None:
            return plan
        impossible = {kind for kind, need in NEEDS.items() if not getattr(self.can, need)}
        if not self.can.sleep:
            impossible.add(int(ActionKind.WAKE))
        impossible.add(int(ActionKind.REPLICAS))
        left_out = np.isin(plan["kind"], list(impossible))
        if PREEMPT in impossible:
            stays = plan["job"][plan["kind"] == PREEMPT]
            left_out |= (plan["kind"] == START) & np.isin(plan["job"], stays)
        self._note(np.unique(plan["kind"][left_out]).tolist())
        kept = records(int((~left_out).sum()), ACTION)
        kept[:] = plan[~left_out]
        return kept

    def _note(self, kinds: Iterable[int]) -> None:
        """Say once of each kind of action that the engine does not carry it out."""
        for kind in kinds:
            if LEFT_OUT[kind] not in self.left_out:
                self.left_out.append(LEFT_OUT[kind])
                logger.warning("tuners: %s (said once)", LEFT_OUT[kind])


def _order(name: str) -> int:
    """Return the place of a tuner in the order in which they act."""
    return LIVE.index(name) if name in LIVE else len(LIVE)


# From actions to events --------------------------------------------------------------


def tuning_events(
    rows: Sequence[Sequence[Any]],
    jobs: Mapping[int, Job],
    taken: Sequence[tuple[int, int]],
    now_us: int,
    number: int,
    in_place: bool,
) -> list[Event]:
    """Return the events that carry out the actions of a round.

    Args:
        rows: actions with job ids.
        jobs: jobs as they are before the decision.
        taken: (node, mask) pairs that jobs hold or were just given.
        number: number of the decision.
        in_place: whether a job can change devices within its node without a restart.
    """
    held = HeldDevices(taken)
    caps = {row[1]: row for row in rows if row[0] == CAP}
    stops = {row[1]: row for row in rows if row[0] == PREEMPT}
    starts: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        if row[0] == START:
            starts.setdefault(row[1], []).append(row)
    events: list[Event] = []
    # 1. Jobs that shrink make room for the others.
    for job_id in sorted(
        stops, key=lambda stopped: _growth(starts.get(stopped, ()), jobs[stopped])
    ):
        events += _move_events(
            jobs[job_id], stops[job_id], starts.pop(job_id, []), held, now_us, in_place
        )
    # 2. Starts take what is free now.
    for job_id, places in starts.items():
        events += _start_events(jobs[job_id], places, held, now_us, number)
    # 3. Caps.
    events += [event for row in caps.values() for event in _cap_events(jobs[row[1]], row, now_us)]
    return events


class HeldDevices:
    """Tracks devices in use per node, so that none is assigned twice."""

    def __init__(self, taken: Sequence[tuple[int, int]]) -> None:
        self._masks: dict[int, int] = {}
        self.take(taken)

    def take(self, rows: Sequence[tuple[int, int]]) -> None:
        for node, mask in rows:
            self._masks[node] = self._masks.get(node, 0) | mask

    def give(self, rows: Sequence[tuple[int, int]]) -> None:
        for node, mask in rows:
            self._masks[node] = self._masks.get(node, 0) & ~mask

    def free(self, rows: Sequence[tuple[int, int]]) -> bool:
        return not any(self._masks.get(node, 0) & mask for node, mask in rows)


def _growth(starts: Sequence[Sequence[Any]], job: Job) -> int:
    """Return how many more devices a job has afterwards."""
    return sum(int(row[3]).bit_count() for row in starts) - held_devices(job)


def _move_events(
    job: Job,
    stop: Sequence[Any],
    starts: Sequence[Sequence[Any]],
    held: HeldDevices,
    now_us: int,
    in_place: bool,
) -> list[Event]:
    """Return the events that preempt a running job or change its devices."""
    if job.state != JobState.RUNNING:
        return []
    stopping = Stopping.preempt(job, now_us)
    if not starts:
        return [stopping] if job.spec.preemptible else []
    old = [(row.node, row.mask) for row in job.rows]
    new = [(int(row[2]), int(row[3])) for row in starts]
    devices = sum(mask.bit_count() for _node, mask in new)
    if devices != held_devices(job) and not job.spec.elastic:
        return []
    if in_place and {node for node, _ in new} == {node for node, _ in old}:
        held.give(old)
        if held.free(new):
            held.take(new)
            return [_resized(job, now_us, devices, new, starts[0])]
        held.take(old)
        return []
    if not job.spec.preemptible:
        return []
    return [replace(_resized(job, now_us, devices, (), starts[0]), wants=new), stopping]


def _start_events(
    job: Job, places: Sequence[Sequence[Any]], held: HeldDevices, now_us: int, number: int
) -> list[Event]:
    """Return the events that start a pending job, perhaps with another size than it asked for."""
    rows = [(int(row[2]), int(row[3])) for row in places]
    devices = sum(mask.bit_count() for _node, mask in rows)
    if job.state != JobState.PENDING or not held.free(rows):
        return []
    held.take(rows)
    events: list[Event] = []
    if job.spec.elastic and devices != size_of(job):
        events.append(_resized(job, now_us, devices, (), places[0]))
    events.append(Intended.next_attempt(job, now_us, rows, number))
    return events


def _cap_events(job: Job, row: Sequence[Any], now_us: int) -> list[Event]:
    share = round(1.0 - CAP_STEP * level_of(row), 4)
    if job.state != JobState.RUNNING or share == share_of(job):
        return []
    return [Capped(now_us, job.id, job.attempt, share, *_reason(row), TUNER)]


def level_of(row: Sequence[Any]) -> int:
    """Return the level of an action, 0 if it has none."""
    return int(row[7]) if len(row) > 7 else 0


def _resized(job: Job, now_us: int, devices: int, rows: Rows, action: Sequence[Any]) -> Resized:
    return Resized(now_us, job.id, job.attempt, devices, rows, *_reason(action), TUNER)


def _reason(action: Sequence[Any]) -> tuple[str, float]:
    return reason_of(action[5], action[6])


def reason_of(reason: int, gain: float) -> tuple[str, float]:
    """Return the reason of an action as events name it, and the gain that it expects."""
    return Reason(int(reason)).name.lower().replace("_", "-"), float(gain)
