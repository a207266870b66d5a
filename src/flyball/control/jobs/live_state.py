"""The book: what is true now, as a fold over the journal's events.

    changes = book.fold(events)      what these events would make of the jobs; changes nothing
    ...                              the same transaction writes the events and the changed jobs
    book.absorb(seq, changes)        once it is durable

The fold is pure: the same events in the same order give the same book, today and in a replay.
An event that no longer makes sense where it falls (the start of a job that was cancelled
a moment before) changes nothing.
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
"""In a job's values: (like jobs ended, *quantiles of its run time in seconds)."""
WISHES = (
    *(EventKind.SUBMITTED, EventKind.CANCEL, EventKind.NODE, EventKind.PREDICTED),
    *(EventKind.RESIZED, EventKind.HELD, EventKind.RELEASED),
)


class Book:
    """Every active job, and how the others ended.

    Attributes:
        lock: held while the book changes; hold it to read more than one thing.
        seq: number of the last event absorbed.
        jobs: the active ones, by id.
        busy: those of them that do not pend.
        ended: the final state of the others.
        down: nodes that are down.
        wishes: how often somebody outside asked for something, or a node changed.
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
        """Begin with what the journal's table of current states says."""
        with self.lock:
            self.seq = seq
            self.jobs = {job.id: job for job in active}
            self.busy = {job.id: job for job in self.jobs.values() if not _pends(job)}
            self.ended = Ended(ended)
            self.down = set(down)
            for watcher in self.watchers:
                watcher(self.jobs)

    def get(self, job_id: int) -> Job | None:
        """An active job."""
        return self.jobs.get(job_id)

    def fold(self, events: Sequence[Event]) -> dict[int, Job]:
        """The jobs that these events change, as they are afterwards."""
        changed: dict[int, Job] = {}
        for event in events:
            kind = event["kind"]
            if kind == EventKind.SUBMITTED:
                job_id = int(event["job"])
                known = job_id in changed or job_id in self.jobs or job_id in self.ended
                if not known:
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
        """The jobs that a prediction is about, if they have not ended."""
        made = {}
        for job_id, *found in event["runs"]:
            job = changed.get(job_id) or self.jobs.get(job_id)
            if job is not None and not job.state.final:
                made[job_id] = replace(job, values={**job.values, PREDICTION: found})
        return made

    def absorb(self, seq: int, changes: Changes, events: Sequence[Event] = ()) -> None:
        """Make the changes true.

        Args:
            seq: number of the last event they come from.
            changes: what `fold` gave.
            events: these events themselves, for what is not about a job.
        """
        with self.lock:
            self.seq = seq
            for job in changes.values():
                if job.state.final or _pends(job):
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


def _pends(job: Job) -> bool:
    return job.state == JobState.PENDING


# What each kind of event makes of a job --------------------------------------------


def _submitted(event: Event) -> Job:
    # What is submitted was checked before; a history may hold fields of a newer version.
    spec = JobSpec.of(event["spec"], ignore_unknown=True)
    return holds.submitted(Job.submitted(int(event["job"]), spec, int(event["time_us"])))


def _intended(job: Job, event: Event) -> Job:
    if job.state != JobState.PENDING or event["attempt"] != job.attempt + 1:
        return job
    if holds.is_held(job):  # since it was decided; it starts with a later decision
        return job
    rows = tuple(Row(int(node), int(mask)) for node, mask in event["rows"])
    return replace(
        adjustments.settled(job),
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
    """The attempt is over: its devices are free, and what it used is booked."""
    held_us = max(0, int(event["over_us"]) - adjustments.held_since_us(job))
    used_us = held_us * adjustments.device_milli(job) / MILLI_PER_DEVICE
    values = usage.added(job, int(event["over_us"]), event.get("values", {}))
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
