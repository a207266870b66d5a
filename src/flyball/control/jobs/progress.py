"""What jobs last said of themselves: to the API, or to the agent, which publishes it.

A job's last report often comes a moment before its end, and the agent publishes once a second: an
end is on record before it is known. So jobs that ended are kept for a little while, and what they
had said by then follows as an event of its own. The book knows nothing of it: no decision does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from flyball.control.jobs.live_state import Book
from flyball.control.jobs.reports_to_events import events_of
from flyball.core.jobs import Job
from flyball.core.live import Event, EventKind, Report
from flyball.core.units import US_PER_S

PROGRESS = "progress"
"""In a job's values."""
PREFIX = "application."
LATE_US = 5 * US_PER_S
"""For so long after its end something may still be heard of a job."""
RECALLED_S = 86_400.0
MOST_RECALLED = 100
"""Jobs that were running as a control plane began, and are looked up in stored telemetry."""


class Agent(Protocol):
    """What the agent heard: `monitor.reader.Telemetry`."""

    def latest(self) -> dict[str, Any]: ...
    def names(self) -> Sequence[str]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class Progress:
    """The last of each value that an active job reported, and of jobs that have just ended."""

    def __init__(
        self, book: Book, agent: Callable[[], Agent | None], now_us: Callable[[], int]
    ) -> None:
        self._book, self._agent, self._now_us = book, agent, now_us
        self._said: dict[int, dict[str, Any]] = {}
        self._ended: dict[int, tuple[int, Job]] = {}
        self._sensed_us = 0

    def of(self, job: Job) -> dict[str, Any] | None:
        """What it last said; of one that ended a while ago, what is on record."""
        if not job.state.final:
            self._sense()
        return self._said.get(job.id) or job.values.get(PROGRESS)

    def hear(self, job: int, values: Mapping[str, Any]) -> None:
        """A job has said something."""
        self._said[job] = {**self._said.get(job, {}), **values}

    def _sense(self) -> None:
        """Take what the agent published of jobs that are known, at most once a second."""
        agent, now_us = self._agent(), self._now_us()
        if agent is None or now_us - self._sensed_us < US_PER_S:
            return
        self._sensed_us = now_us
        for name, value in agent.latest().items():
            job, field = _named(name)
            if job in self._book.jobs or job in self._ended:
                self.hear(job, {field: value})

    def recall(self, jobs: Collection[int]) -> None:
        """Look up what jobs said before this control plane began; they may say no more.

        The agent began anew as well, and these are its files of a day: nobody waits for it.
        """
        agent = self._agent()
        if agent is not None and jobs:
            wanted = set(sorted(jobs)[-MOST_RECALLED:])
            threading.Thread(target=self._look_up, args=(agent, wanted), daemon=True).start()

    def _look_up(self, agent: Agent, jobs: Collection[int]) -> None:
        for name in agent.names():
            job, field = _named(name)
            if job in jobs:
                _times, values = agent.series(name, RECALLED_S)
                if len(values):
                    self._said[job] = {field: float(values[-1]), **self._said.get(job, {})}

    # For the loop and the journal ------------------------------------------------------

    def understood(
        self, reports: Sequence[Report], jobs: dict[int, Job], now_us: int
    ) -> list[Event]:
        """The events that reports give rise to; of an end, with what the job last said."""
        events = events_of(reports, jobs, now_us)
        if events:
            self._sense()
        return [self._noted(each) for each in events]

    def _noted(self, event: Event) -> Event:
        said = self._said.get(event["job"])
        if not said or event["kind"] not in (EventKind.ENDED, EventKind.REQUEUED):
            return event
        return {**event, "values": {**event.get("values", {}), PROGRESS: said}}

    def fold(self, events: Sequence[Event]) -> dict[int, Job]:
        """What events make of the jobs: the book's fold, and last words after an end."""
        changes = self._book.fold(events)
        for event in events:
            if event["kind"] == EventKind.REPORTED and event["job"] in self._ended:
                _since_us, job = self._ended[event["job"]]
                changes[job.id] = replace(job, values={**job.values, PROGRESS: event["values"]})
        return changes

    def settle(self, events: Sequence[Event], changes: Mapping[int, Job]) -> dict[int, Job]:
        """The changes that these events, now on record, made: not what is said after an end."""
        now_us = self._now_us()
        for job in changes.values():
            if job.state.final:
                since_us, _before = self._ended.get(job.id, (now_us, job))
                self._ended[job.id] = since_us, job
        late = {event["job"] for event in events if event["kind"] == EventKind.REPORTED}
        for id_ in late:
            self._forget(id_)
        after = late | {event["job"] for event in events if event["kind"] == EventKind.NOTIFIED}
        return {id_: job for id_, job in changes.items() if id_ not in after}

    def late(self) -> list[Event]:
        """Last words of jobs that ended a moment ago, again and again until they are on record.

        Of those who have none nothing is kept here any more.
        """
        if not self._ended:
            return []
        self._sense()
        now_us = self._now_us()
        events: list[Event] = []
        for since_us, job in list(self._ended.values()):
            if now_us - since_us < LATE_US:
                break  # and whoever ended after it as well
            said = self._said.get(job.id)
            if said and said != job.values.get(PROGRESS):
                about = {"kind": EventKind.REPORTED, "time_us": now_us, "job": job.id}
                events.append({**about, "values": said})
            else:
                self._forget(job.id)
        return events

    def _forget(self, job: int) -> None:
        self._ended.pop(job, None)
        self._said.pop(job, None)


def _named(name: str) -> tuple[int, str]:
    """Job and field of `application.17.loss`; (0, "") for any other name."""
    number, dot, field = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not dot or not number.isdecimal():
        return 0, ""
    return int(number), field
