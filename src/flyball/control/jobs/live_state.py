"""The live state: what is true now, folded from the journal's events.

    changes = live_state.fold(events)   the jobs as these events would leave them; changes nothing
    ...                                 the same transaction writes the events and the changed jobs
    live_state.absorb(seq, changes)     once it is durable

The fold is pure: the same events in the same order give the same state, now and in a replay.
An event that no longer applies when its turn comes (the start of a job that was cancelled just
before) changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flyball.control.jobs import adjustments, holds, priority, scaling, usage
from flyball.control.jobs.ended import FinalStates
from flyball.core.events import (
    Accepted,
    AttemptEvent,
    CancelRequested,
    Capped,
    Checkpointed,
    Deferred,
    Ended,
    Event,
    Held,
    Intended,
    JobEvent,
    NodeChanged,
    Opened,
    OthersChanged,
    Predicted,
    Prioritised,
    Queued,
    Released,
    Requeued,
    Resized,
    Scaled,
    Started,
    Stopping,
    Submitted,
)
from flyball.core.jobs import Job, JobSpec, JobState, Row
from flyball.core.units import MILLI_PER_DEVICE

Changes = Mapping[int, Job]
PREDICTION = "predicted_s"
"""Key in a job's values: (number of like jobs that ended, *quantiles of its run time, seconds)."""
REFERENCE = "reference"
"""Key in a job's values: the number that a queue behind the engine gave its last attempt."""
QUEUED = "queued"
"""Key in a job's values: why its attempt does not run yet, as [`queued` or `unknown`, reason]."""
WISHES = {
    *(Opened, Submitted, CancelRequested, NodeChanged, OthersChanged, Predicted, Resized),
    *(Held, Released, Prioritised),
}
"""Events that call for a new decision."""


class LiveState:
    """Holds every active job, and the final states of the others.

    Attributes:
        lock: held while the state changes; hold it to read several attributes consistently.
        seq: number of the last event absorbed.
        jobs: the active ones, by id.
        busy: the active jobs that are not pending.
        ended: final states, by id.
        down: nodes that take no new jobs.
        node_notes: the last event of each of them.
        others: devices, cores and MiB that jobs which are not ours have of nodes.
        wishes: number of events absorbed that call for a new decision.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.seq = 0
        self.wishes = 0
        self.jobs: dict[int, Job] = {}
        self.ended = FinalStates()
        self.busy: dict[int, Job] = {}
        self.down: set[int] = set()
        self.node_notes: dict[int, NodeChanged] = {}
        self.others: dict[int, tuple[int, int, int]] = {}
        self.watchers: list[Callable[[Changes], None]] = []

    def load(
        self, seq: int, active: Iterable[Job], ended: Iterable[tuple[int, JobState]], down: set[int]
    ) -> None:
        """Start from the current states in the journal's tables; `down` comes without reasons."""
        with self.lock:
            self.seq = seq
            self.jobs = {job.id: job for job in active}
            self.busy = {job.id: job for job in self.jobs.values() if not _is_pending(job)}
            self.ended = FinalStates(ended)
            self.down, self.node_notes, self.others = set(down), {}, {}
            for watcher in self.watchers:
                watcher(self.jobs)

    def get(self, job_id: int) -> Job | None:
        """Return an active job, None if there is none of that id."""
        return self.jobs.get(job_id)

    def fold(self, events: Sequence[Event]) -> dict[int, Job]:
        """Return the jobs that these events change, as they are afterwards."""
        changed: dict[int, Job] = {}
        for event in events:
            if isinstance(event, Submitted):
                job_id = event.job
                exists = job_id in changed or job_id in self.jobs or job_id in self.ended
                if not exists:
                    changed[job_id] = _submitted(event)
            elif isinstance(event, Predicted):
                changed |= self._predicted(event, changed)
            elif isinstance(event, JobEvent) and (apply := FOLDS.get(type(event))):
                job = changed.get(event.job) or self.jobs.get(event.job)
                if job is not None and not job.state.final:
                    changed[event.job] = apply(job, event)
                    if isinstance(event, Started) and event.rows:
                        self._make_way(changed, changed[event.job], job)
        return changed

    def all_up(self) -> None:
        """Take all nodes as up until told otherwise, as their places have changed."""
        with self.lock:
            self.down.clear()
            self.node_notes.clear()
            self.others.clear()

    def down_after(self, events: Sequence[Event]) -> set[int]:
        """Return the nodes that are down after these events."""
        down = set(self.down)
        for event in events:
            if isinstance(event, Opened):
                down.clear()
            elif isinstance(event, NodeChanged):
                (down.discard if event.up else down.add)(event.node)
        return down

    def others_after(self, events: Sequence[Event]) -> dict[int, tuple[int, int, int]]:
        """Return what others have of nodes after these events."""
        others = dict(self.others)
        for event in events:
            if isinstance(event, Opened):
                others.clear()
            elif isinstance(event, OthersChanged):
                for node, devices, cores, memory_mib in event.nodes:
                    others[node] = devices, cores, memory_mib
        return {node: part for node, part in others.items() if any(part)}

    def _make_way(self, changed: dict[int, Job], job: Job, before: Job) -> None:
        """Swap devices with the jobs on record for those that a job was really given.

        The engine chooses devices, and jobs that have not started yet, or have ended and were not
        reported, stand on record for devices that they do not have.
        """
        for at, (row, old) in enumerate(zip(job.rows, before.rows, strict=True)):
            taken, given = row.mask & ~old.mask, old.mask & ~row.mask
            others = {**self.busy, **changed}.values() if taken else ()
            for other in sorted(others, key=lambda other: other.id):
                if other.id != job.id and other.state in (JobState.RUNNING, JobState.COMPLETING):
                    rows, given = _without(other.rows, job.rows[at].node, taken, given)
                    if rows != other.rows:
                        changed[other.id] = replace(other, rows=rows)

    def _predicted(self, event: Predicted, changed: Changes) -> dict[int, Job]:
        """Return the active jobs of a prediction, with its values."""
        predicted = {}
        for number, *run in event.runs:
            job_id = int(number)
            job = changed.get(job_id) or self.jobs.get(job_id)
            if job is not None and not job.state.final:
                predicted[job_id] = replace(job, values={**job.values, PREDICTION: run})
        return predicted

    def absorb(self, seq: int, changes: Changes, events: Sequence[Event] = ()) -> None:
        """Apply changes that are durable.

        Args:
            seq: number of the last event they come from.
            changes: the result of `fold`.
            events: the events themselves, for those that are not about a job.
        """
        with self.lock:
            self.seq = seq
            for job in changes.values():
                if job.state.final or _is_pending(job):
                    self.busy.pop(job.id, None)
                else:
                    self.busy[job.id] = job
                if job.state.final:
                    self.jobs.pop(job.id, None)
                    self.ended[job.id] = job.state
                else:
                    self.jobs[job.id] = job
            self.wishes += sum(type(event) in WISHES for event in events)
            self.down, self.others = self.down_after(events), self.others_after(events)
            for event in events:
                if isinstance(event, Opened):
                    self.node_notes.clear()
                elif isinstance(event, NodeChanged):
                    if event.up:
                        self.node_notes.pop(event.node, None)
                    else:
                        self.node_notes[event.node] = event
            for watcher in self.watchers:
                watcher(changes)


def _is_pending(job: Job) -> bool:
    return job.state == JobState.PENDING


# How each kind of event changes a job ----------------------------------------------


def _submitted(event: Submitted) -> Job:
    # Submissions were checked before; a history may hold fields of a newer version.
    spec = JobSpec.of(event.spec, ignore_unknown=True)
    return holds.submitted(Job.submitted(event.job, spec, event.time_us))


def _intended(job: Job, event: Intended) -> Job:
    if job.state != JobState.PENDING or event.attempt != job.attempt + 1:
        return job
    if holds.is_held(job):  # held after the decision; a later decision starts it
        return job
    rows = tuple(Row(int(node), int(mask)) for node, mask in event.rows)
    return replace(
        adjustments.placed(job),
        state=JobState.RUNNING,
        attempt=job.attempt + 1,
        rows=rows,
        since_us=event.time_us,
        started_us=0,
        stopping="",
        reason="",
    )


def _is_current(job: Job, event: AttemptEvent) -> bool:
    return job.state != JobState.PENDING and event.attempt == job.attempt


def _started(job: Job, event: Started) -> Job:
    if not _is_current(job, event) or job.started_us:
        return job
    first_us = job.first_start_us or event.began_us
    rows = tuple(Row(int(node), int(mask)) for node, mask in event.rows or ())
    if not _same_counts(job.rows, rows):
        rows = job.rows
    reason = "" if QUEUED in job.values else job.reason
    values = {name: value for name, value in job.values.items() if name != QUEUED}
    return replace(
        job, started_us=event.began_us, first_start_us=first_us, rows=rows, reason=reason,
        values=values,
    )  # fmt: skip


def _same_counts(before: Sequence[Row], rows: Sequence[Row]) -> bool:
    """Whether both have as many devices on the same nodes."""
    counts = [(row.node, row.mask.bit_count()) for row in before]
    return counts == [(row.node, row.mask.bit_count()) for row in rows]


def _without(
    rows: tuple[Row, ...], node: int, taken: int, given: int
) -> tuple[tuple[Row, ...], int]:
    """Return rows with `taken` devices of a node replaced by some of `given`, and what is left."""
    new = []
    for row in rows:
        lost = row.mask & taken if row.node == node else 0
        mask = row.mask & ~lost
        for _ in range(lost.bit_count()):
            lowest = given & -given
            mask, given = mask | lowest, given & ~lowest
        new.append(Row(row.node, mask) if lost else row)
    return tuple(new), given


def _accepted(job: Job, event: Accepted) -> Job:
    if not _is_current(job, event):
        return job
    return replace(job, values={**job.values, REFERENCE: event.reference})


def _queued(job: Job, event: Queued) -> Job:
    if not _is_current(job, event):
        return job
    values = {**job.values, QUEUED: [event.what, event.reason]}
    return replace(job, reason=f"{event.what}: {event.reason}", values=values)


def _stopping(job: Job, event: Stopping) -> Job:
    if not _is_current(job, event) or job.stopping == "cancel":
        return job
    return replace(job, state=JobState.COMPLETING, stopping=event.why)


def _cancel(job: Job, event: CancelRequested) -> Job:
    reason = event.reason or ""
    if job.state == JobState.PENDING:
        return replace(job, state=JobState.CANCELLED, end_us=event.time_us, reason=reason)
    return replace(job, state=JobState.COMPLETING, stopping="cancel", reason=reason)


def _ended(job: Job, event: Ended) -> Job:
    if not _is_current(job, event):
        return job
    over = _over(job, event)
    state, reason = JobState(event.state), event.reason or job.reason
    return replace(over, state=state, end_us=event.over_us, reason=reason)


def _requeued(job: Job, event: Requeued) -> Job:
    if not _is_current(job, event):
        return job
    over = _over(job, event)
    return replace(
        over,
        state=JobState.PENDING,
        since_us=event.over_us,
        stopping="",
        started_us=0,
        reason=f"requeued-{event.why}",
        preemptions=job.preemptions + (event.why == "preempt"),
        failures=job.failures + (event.why == "lost"),
    )


def _over(job: Job, event: Ended | Requeued) -> Job:
    """End the attempt: free its devices and add up what it used."""
    held_us = max(0, event.over_us - adjustments.held_since_us(job))
    used_us = held_us * adjustments.device_milli(job) / MILLI_PER_DEVICE
    values = usage.add_attempt(job, event.over_us, event.values or {})
    values = {name: value for name, value in values.items() if name != QUEUED}
    return replace(job, rows=(), service_us=job.service_us + used_us, values=values)


FOLDS: dict[type[JobEvent], Callable[[Job, Any], Job]] = {
    Intended: _intended,
    Accepted: _accepted,
    Queued: _queued,
    Started: _started,
    Stopping: _stopping,
    CancelRequested: _cancel,
    Ended: _ended,
    Requeued: _requeued,
    Held: holds.held,
    Deferred: holds.deferred,
    Released: holds.released,
    Prioritised: priority.prioritised,
    Resized: adjustments.resized,
    Capped: adjustments.capped,
    Scaled: scaling.scaled,
    Checkpointed: adjustments.checkpointed,
}
