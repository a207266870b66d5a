"""Tells the targets of a job of its end, beside the control loop and at least once.

An end that is on record is owed to every target of the job until a `notified` event says what came
of it. A few threads tell one job's targets each, in order; no cycle waits for them, and no decision
looks at what they record. What is still owed when a control plane starts is told then: a target
that was told just before the last one died is told again.
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
from flyball.control.notify.deliver import Abandoned, Outcome
from flyball.control.notify.target import Target, is_url, program_problem, shown
from flyball.core.jobs import Job
from flyball.core.live import Event, EventKind, Launch, LiveNode
from flyball.core.units import US_PER_S
from flyball.engines.local.request import environment

NOTIFIED = "notified"
"""In a job's values: a list of {ok, message, time_us}, one for each target that was told."""
WORKERS = 4
"""Targets that are told at a time."""
MAX_QUEUED = 10_000
"""Ended jobs whose targets wait to be told; those of further ones are recorded as not told."""
MAX_AGE_US = 7 * 86_400 * US_PER_S
"""Ends that are older when a control plane starts are not told any more."""
RETRY_S = 1.0
FINISH_S = 2.0
"""When the control plane stops: for targets that are being told."""
SENT = (
    *("id", "label", "name", "user", "tenant", "state", "exit_code", "signal", "reason"),
    *("attempts", "submit_time", "start_time", "end_time"),
)
"""What a target is told, as in the API's view of a job."""

logger = logging.getLogger("flyball.control")


def is_owed(job: Job) -> bool:
    """Whether it has ended and some target has not been told."""
    return job.state.final and len(job.values.get(NOTIFIED, ())) < len(job.spec.notify)


def message_of(job: Job, nodes: Sequence[LiveNode]) -> dict[str, Any]:
    """What the targets of an ended job are told."""
    view = job_view(job, nodes)
    return {name: view[name] for name in SENT}


def variables_of(message: Mapping[str, Any]) -> dict[str, str]:
    """The same as variables for a command; one that has no value is empty."""
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
    """The ends that targets are still owed, and the threads that tell them.

    Args:
        folder: the state folder.
        nodes: of the cluster; a command's environment is that of a job on the first one.

    Attributes:
        timeout_s: how long telling a target may take.
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
        """Take up what the last control plane had not told."""
        since_us = self._now_us() - MAX_AGE_US
        self._add(self._journal.ended_with_targets(since_us))

    # For the journal ---------------------------------------------------------------------

    def fold(self, events: Sequence[Event], changes: dict[int, Job]) -> dict[int, Job]:
        """The changes with what was told added to the jobs it is about."""
        for event in events:
            if event["kind"] != EventKind.NOTIFIED:
                continue
            job = changes.get(event["job"]) or self._owed.get(event["job"])
            if job is None:
                continue
            results = job.values.get(NOTIFIED, [])
            if event["target"] == len(results):
                result = {name: event[name] for name in ("ok", "message", "time_us")}
                changes[job.id] = replace(job, values={**job.values, NOTIFIED: [*results, result]})
        return changes

    def settle(self, changes: Mapping[int, Job]) -> None:
        """These changes are on record now."""
        with self._changed:
            known = {id_: job for id_, job in changes.items() if id_ in self._owed}
            for job in known.values():
                if is_owed(job):
                    self._owed[job.id] = job
                else:
                    del self._owed[job.id]
        self._add(job for id_, job in changes.items() if id_ not in known)

    def _add(self, jobs: Iterable[Job]) -> None:
        dropped: list[Event] = []
        with self._changed:
            for job in jobs:
                if not job.spec.notify or not is_owed(job):
                    continue
                self._owed[job.id] = job
                if len(self._queue) < MAX_QUEUED:
                    self._queue.append(job.id)
                    continue
                why = Outcome(False, f"not told: {MAX_QUEUED:,} other ended jobs came before it")
                first = len(job.values.get(NOTIFIED, ()))
                dropped += [
                    self._event(job.id, target, why)
                    for target in range(first, len(job.spec.notify))
                ]
            self._changed.notify_all()
        if dropped:
            self._journal.append(dropped)

    def _event(self, job: int, target: int, outcome: Outcome) -> Event:
        about = {"kind": EventKind.NOTIFIED, "time_us": self._now_us(), "job": job}
        return {**about, "target": target, **outcome._asdict()}

    # Telling -----------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to tell targets, in threads of its own."""
        self._threads = [
            threading.Thread(target=self._work, name=f"notify-{number}", daemon=True)
            for number in range(WORKERS)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no more; leave those that do not end soon to the next control plane."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._join(FINISH_S)
        self._abandon.set()  # commands are killed; a URL that does not answer goes with the process
        self._join(FINISH_S)

    def _join(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end_s - time.monotonic()))

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                self._tell(job)
            except Abandoned:
                return
            except Exception:
                logger.exception("the targets of job %d could not be told", job.id)

    def _next(self) -> Job | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stopping)
            return None if self._stopping else self._owed[self._queue.popleft()]

    def _tell(self, job: Job) -> None:
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

    def _deliver(self, job: Job, target: Target, message: Mapping[str, Any]) -> Outcome:
        payload = json.dumps(message).encode()
        if is_url(target):
            return deliver.post(target[0], payload, self.timeout_s)
        if problem := program_problem(target[0], job.spec):
            return Outcome(False, f"could not start: {problem}")
        launch = Launch(job.id, job.attempt, job.spec, ())
        env = environment(launch, self._folder, self._nodes[0], job.spec.cpus, os.environ)
        env |= variables_of(message)
        cwd = job.spec.cwd
        return deliver.run(target, cwd, env, payload, self._abandon, self.timeout_s)

    def _record(self, event: Event) -> None:
        """Put it on record, as soon as the disk takes it."""
        while not self._abandon.is_set():
            try:
                self._journal.append([event]).wait()
                return
            except JournalUnavailable:
                self._abandon.wait(RETRY_S)


def view(job: Job) -> list[dict[str, Any]] | None:
    """The targets of a job and what came of each, as the API shows them; None without targets."""
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
