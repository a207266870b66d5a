"""Notifies the targets of a job of its end, at least once, in threads apart from the control loop.

After a job's end is on record, each of its targets is owed a notification until a `notified` event
records the outcome. A few threads each serve one job's targets, in order; no cycle waits for them,
and no decision uses what they record. What is still owed when a control plane starts is delivered
then: a target that was notified just before the last one died is notified again.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flyball.control.ask.views import job_view
from flyball.control.journal.store import Journal, JournalUnavailable
from flyball.control.notify import deliver
from flyball.control.notify.deliver import Abandoned, Delivery
from flyball.control.notify.target import Target, is_url, program_problem, shown
from flyball.core.events import Event, Notified
from flyball.core.jobs import Job
from flyball.core.live import Launch, LiveNode
from flyball.core.units import US_PER_S
from flyball.engines.local.request import environment

NOTIFIED = "notified"
"""Key in a job's values: a list of {ok, message, time_us}, one for each notified target."""
WORKERS = 4
"""Number of threads, so of targets that are notified at a time."""
MAX_QUEUED = 10_000
"""Maximum number of ended jobs in the queue; targets of further ones are recorded as not told."""
MAX_AGE_US = 7 * 86_400 * US_PER_S
"""Ends older than this when a control plane starts are no longer notified."""
RETRY_S = 1.0
"""Interval at which a record that the journal refused is retried."""
STOP_TIMEOUT_S = 2.0
"""Time that running notifications get to finish when the control plane stops."""
SENT = (
    *("id", "label", "name", "user", "tenant", "state", "exit_code", "signal", "reason"),
    *("attempts", "submit_time", "start_time", "end_time"),
)
"""Fields sent to a target, as in the API's view of a job."""

logger = logging.getLogger("flyball.control")


def is_owed(job: Job) -> bool:
    """Whether it has ended and some target has not been notified."""
    return job.state.final and len(job.values.get(NOTIFIED, ())) < len(job.spec.notify)


def message_of(job: Job, nodes: Sequence[LiveNode]) -> dict[str, Any]:
    """Return the message for the targets of an ended job."""
    view = job_view(job, nodes)
    return {name: view[name] for name in SENT}


def variables_of(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the message as environment variables of a command; a missing value is empty."""
    names = {
        "FLYBALL_JOB_ID": "id",
        "FLYBALL_JOB_LABEL": "label",
        "FLYBALL_JOB_NAME": "name",
        "FLYBALL_JOB_USER": "user",
        "FLYBALL_JOB_STATE": "state",
        "FLYBALL_JOB_REASON": "reason",
        "FLYBALL_EXIT_CODE": "exit_code",
        "FLYBALL_SIGNAL": "signal",
        "FLYBALL_SUBMIT_TIME": "submit_time",
        "FLYBALL_START_TIME": "start_time",
        "FLYBALL_END_TIME": "end_time",
    }
    values = {variable: message[name] for variable, name in names.items()}
    return {
        variable: "" if value is None else str(value).replace("\0", "")
        for variable, value in values.items()
    }


class Notices:
    """Holds the notifications that are still owed, and the threads that deliver them.

    Args:
        folder: the state folder.
        nodes: the cluster's nodes; a command's environment is that of a job on the first one.

    Attributes:
        timeout_s: time limit of one notification.
    """

    def __init__(
        self,
        folder: Path,
        nodes: Sequence[LiveNode],
        journal: Journal,
        now_us: Callable[[], int],
    ) -> None:
        self._folder, self._nodes = folder.resolve(), nodes
        self._journal, self._now_us = journal, now_us
        self._changed = threading.Condition()
        self._owed: dict[int, Job] = {}
        self._queue: deque[int] = deque()
        self._stopping = False
        self._abandon = threading.Event()
        self._threads: list[threading.Thread] = []
        self.timeout_s = deliver.TIMEOUT_S

    def load(self) -> None:
        """Queue the notifications that the last control plane did not deliver."""
        since_us = self._now_us() - MAX_AGE_US
        self._add(self._journal.ended_with_targets(since_us))

    # For the journal ---------------------------------------------------------------------

    def fold(self, events: Sequence[Event], changes: dict[int, Job]) -> dict[int, Job]:
        """Return the changes with the outcomes of notifications added to their jobs."""
        for event in events:
            if not isinstance(event, Notified):
                continue
            job = changes.get(event.job) or self._owed.get(event.job)
            if job is None:
                continue
            results = job.values.get(NOTIFIED, [])
            if event.target == len(results):
                result = {"ok": event.ok, "message": event.message, "time_us": event.time_us}
                changes[job.id] = replace(job, values={**job.values, NOTIFIED: [*results, result]})
        return changes

    def settle(self, changes: Mapping[int, Job]) -> None:
        """Take in changes that are now on record."""
        with self._changed:
            owed = {id_: job for id_, job in changes.items() if id_ in self._owed}
            for job in owed.values():
                if is_owed(job):
                    self._owed[job.id] = job
                else:
                    del self._owed[job.id]
        self._add(job for id_, job in changes.items() if id_ not in owed)

    def _add(self, jobs: Iterable[Job]) -> None:
        dropped: list[Notified] = []
        with self._changed:
            for job in jobs:
                if not job.spec.notify or not is_owed(job):
                    continue
                self._owed[job.id] = job
                if len(self._queue) < MAX_QUEUED:
                    self._queue.append(job.id)
                    continue
                why = Delivery(False, f"not told: {MAX_QUEUED:,} other ended jobs came before it")
                first = len(job.values.get(NOTIFIED, ()))
                dropped += [
                    self._event(job.id, target, why)
                    for target in range(first, len(job.spec.notify))
                ]
            self._changed.notify_all()
        if dropped:
            self._journal.append(dropped)

    def _event(self, job: int, target: int, outcome: Delivery) -> Notified:
        return Notified(self._now_us(), job, target, outcome.ok, outcome.message)

    # Delivery ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the threads that notify targets."""
        self._threads = [
            threading.Thread(target=self._work, name=f"notify-{number}", daemon=True)
            for number in range(WORKERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start no more; leave those that do not finish soon to the next control plane."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._join(STOP_TIMEOUT_S)
        self._abandon.set()  # commands are killed; a pending post ends with the process
        self._join(STOP_TIMEOUT_S)

    def _join(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._notify(job)
            except Abandoned:
                return
            except Exception:
                logger.exception("the targets of job %d could not be notified", job.id)

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            return None if self._stopping else self._owed[self._queue.popleft()]

    def _notify(self, job: Job) -> None:
        message = message_of(job, self._nodes)
        first = len(job.values.get(NOTIFIED, ()))
        for number, target in enumerate(job.spec.notify[first:], first):
            if self._stopping:
                return
            outcome = self._deliver(job, target, message)
            if not outcome.ok:
                # A command's arguments may hold secrets, so the log has only its number.
                logger.warning("job %d: --notify %d: %s", job.id, number + 1, outcome.message)
            self._record(self._event(job.id, number, outcome))

    def _deliver(self, job: Job, target: Target, message: Mapping[str, Any]) -> Delivery:
        payload = json.dumps(message).encode()
        if is_url(target):
            return deliver.post(target[0], payload, self.timeout_s)
        if problem := program_problem(target[0], job.spec):
            return Delivery(False, f"could not start: {problem}")
        launch = Launch(job.id, job.attempt, job.spec, ())
        env = environment(launch, self._folder, self._nodes[0], job.spec.cpus, os.environ)
        env |= variables_of(message)
        cwd = job.spec.cwd
        return deliver.run(target, cwd, env, payload, self._abandon, self.timeout_s)

    def _record(self, event: Notified) -> None:
        """Record an outcome, with retries until the journal accepts it."""
        while not self._abandon.is_set():
            try:
                self._journal.append([event]).wait()
                return
            except JournalUnavailable:
                self._abandon.wait(RETRY_S)


def view(job: Job) -> list[dict[str, Any]] | None:
    """Return the targets of a job with outcomes, as the API shows them; None without targets."""
    if not job.spec.notify:
        return None
    results = job.values.get(NOTIFIED, [])
    missing = {"ok": None, "message": "", "time_us": 0}
    padded = [*results, *[missing] * (len(job.spec.notify) - len(results))]
    return [
        {
            "to": shown(target),
            "ok": result["ok"],
            "message": result["message"],
            "time": result["time_us"] / US_PER_S if result["time_us"] else None,
        }
        for target, result in zip(job.spec.notify, padded, strict=True)
    ]
