"""The live state: what is true now, folded from the journal's events.

    changes = book.fold(events)      the jobs as these events would leave them; changes nothing
    ...                              the same transaction writes the events and the changed jobs
    book.absorb(seq, changes)        once it is durable

The fold is pure: the same events in the same order give the same state, now and in a replay.
An event that no longer applies when its turn comes (the start of a job that was cancelled just
before) changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from flyball.control.jobs import adjustments, holds, scaling, usage
from flyball.control.jobs.ended import Ended
from flyball.core.jobs import Job, JobSpec, JobState, Row
from flyball.core.live import Event, EventKind
from flyball.core.units import MILLI_PER_DEVICE

Changes = Mapping[int, Job]
PREDICTION = "predicted_s"
"""Key in a job's values: (number of like jobs that ended, *quantiles of its run time, seconds)."""
WISHES = (
    *(EventKind.SUBMITTED, EventKind.CANCEL, EventKind.NODE, EventKind.PREDICTED),
    *(EventKind.RESIZED, EventKind.HELD, EventKind.RELEASED),
)
"""Kinds of events that call for a new decision."""


class LiveState:
    """Holds every active job, and the final states of the others.

    Attributes:
        lock: held while the state changes; hold it to read several attributes consistently.
        seq: number of the last event absorbed.
        jobs: the active ones, by id.
        busy: the active jobs that are not pending.
        ended: final states, by id.
        down: nodes that are down.
        wishes: number of events absorbed that call for a new decision.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.seq = 0
        self.wishes = 0
        self.jobs: dict[int, Job] = {}
        self.ended = Ended()
        self.busy: dict[int, Job] = {}
        self.down: set[int] = set()
        self.watchers: list[Callable[[Changes], None]] = []

    def load(
        self, seq: int, active: Iterable[Job], ended: Iterable[tuple[int, JobState]], down: set[int]
    ) -> None:
        """Start from the current states in the journal's tables."""
        with self.lock:
            self.seq = seq
            self.jobs = {job.id: job for job in active}
            self.busy = {job.id: job for job in self.jobs.values() if not _is_pending(job)}
            self.ended = Ended(ended)
            self.down = set(down)
            for watcher in self.watchers:
                watcher(self.jobs)

    def get(self, job_id: int) -> Job | None:
        """Return an active job, None if there is none of that id."""
        return self.jobs.get(job_id)

    def fold(self, events: Sequence[Event]) -> dict[int, Job]:
        """Return the jobs that these events change, as they are afterwards."""
        changed: dict[int, Job] = {}
        for event in events:
            kind = event["kind"]
            if kind == EventKind.SUBMITTED:
                job_id = int(event["job"])
                exists = job_id in changed or job_id in self.jobs or job_id in self.ended
                if not exists:
                    changed[job_id] = _submitted(event)
                continue
            if kind == EventKind.PREDICTED:
                changed |= self._predicted(event, changed)
                continue
            apply = FOLDS.get(kind)
            if apply is None:
                continue
            job_id = int(event["job"])
            job = changed.get(job_id) or self.jobs.get(job_id)
            if job is not None and not job.state.final:
                changed[job_id] = apply(job, event)
        return changed

    def _predicted(self, event: Event, changed: Changes) -> dict[int, Job]:
        """Return the active jobs of a prediction, with its values."""
        predicted = {}
        for job_id, *run in event["runs"]:
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
            for event in events:
                self.wishes += event["kind"] in WISHES
                if event["kind"] == EventKind.NODE:
                    (self.down.discard if event["up"] else self.down.add)(int(event["node"]))
            for watcher in self.watchers:
                watcher(changes)


def _is_pending(job: Job) -> bool:
    return job.state == JobState.PENDING


# How each kind of event changes a job ----------------------------------------------


def _submitted(event: Event) -> Job:
    # Submissions were checked before; a history may hold fields of a newer version.
    spec = JobSpec.of(event["spec"], ignore_unknown=True)
    return holds.submitted(Job.submitted(int(event["job"]), spec, int(event["time_us"])))


def _intended(job: Job, event: Event) -> Job:
    if job.state != JobState.PENDING or event["attempt"] != job.attempt + 1:
        return job
    if holds.is_held(job):  # held after the decision; a later decision starts it
        return job
    rows = tuple(Row(int(node), int(mask)) for node, mask in event["rows"])
    return replace(
        adjustments.placed(job),
        state=JobState.RUNNING,
        attempt=job.attempt + 1,
        rows=rows,
        since_us=int(event["time_us"]),
        started_us=0,
        stopping="",
        reason="",
    )


def _is_current(job: Job, event: Event) -> bool:
    return bool(job.state != JobState.PENDING and event["attempt"] == job.attempt)


def _started(job: Job, event: Event) -> Job:
    if not _is_current(job, event) or job.started_us:
        return job
    began = int(event["began_us"])
    return replace(job, started_us=began, first_start_us=job.first_start_us or began)


def _stopping(job: Job, event: Event) -> Job:
    if not _is_current(job, event) or job.stopping == "cancel":
        return job
    return replace(job, state=JobState.COMPLETING, stopping=str(event["why"]))


def _cancel(job: Job, event: Event) -> Job:
    reason = str(event.get("reason", ""))
    if job.state == JobState.PENDING:
        end_us = int(event["time_us"])
        return replace(job, state=JobState.CANCELLED, end_us=end_us, reason=reason)
    return replace(job, state=JobState.COMPLETING, stopping="cancel", reason=reason)


def _ended(job: Job, event: Event) -> Job:
    if not _is_current(job, event):
        return job
    over = _over(job, event)
    state, reason = JobState(event["state"]), str(event.get("reason", ""))
    return replace(over, state=state, end_us=int(event["over_us"]), reason=reason or job.reason)


def _requeued(job: Job, event: Event) -> Job:
    if not _is_current(job, event):
        return job
    over = _over(job, event)
    why = str(event["why"])
    return replace(
        over,
        state=JobState.PENDING,
        since_us=int(event["over_us"]),
        stopping="",
        started_us=0,
        reason=f"requeued-{why}",
        preemptions=job.preemptions + (why == "preempt"),
        failures=job.failures + (why == "lost"),
    )


def _over(job: Job, event: Event) -> Job:
    """End the attempt: free its devices and add up what it used."""
    held_us = max(0, int(event["over_us"]) - adjustments.held_since_us(job))
    used_us = held_us * adjustments.device_milli(job) / MILLI_PER_DEVICE
    values = usage.add_attempt(job, int(event["over_us"]), event.get("values", {}))
    return replace(job, rows=(), service_us=job.service_us + used_us, values=values)


FOLDS: dict[str, Callable[[Job, Event], Job]] = {
    EventKind.INTENDED: _intended,
    EventKind.STARTED: _started,
    EventKind.STOPPING: _stopping,
    EventKind.CANCEL: _cancel,
    EventKind.ENDED: _ended,
    EventKind.REQUEUED: _requeued,
    EventKind.HELD: holds.held,
    EventKind.RELEASED: holds.released,
    EventKind.RESIZED: adjustments.resized,
    EventKind.CAPPED: adjustments.capped,
    EventKind.SCALED: scaling.scaled,
    EventKind.CHECKPOINTED: adjustments.checkpointed,
}
