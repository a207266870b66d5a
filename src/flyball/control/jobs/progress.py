"""The latest values that jobs reported: to the API, or to the agent, which publishes them.

A job's last report often comes just before its end, and the agent publishes once a second, so an
end is often recorded before the last report arrives. Ended jobs are therefore kept for a few
seconds, and their last values follow as a separate event. Decisions do not use them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.reports_to_events import AttemptReported, events_of
from flyball.core.events import Ended, Event, Notified, Reported, Requeued
from flyball.core.jobs import Job
from flyball.core.live import Report
from flyball.core.units import US_PER_S

PROGRESS = "progress"
"""Key of the last report in a job's values."""
PREFIX = "application."
"""Prefix of the agent's series of what jobs report."""
LATE_US = 5 * US_PER_S
"""How long after its end reports of a job are still accepted."""
RECALLED_S = 86_400.0
"""How far back stored telemetry is read after a restart."""
MAX_RECALLED = 100
"""Maximum number of running jobs that are looked up in stored telemetry after a restart."""


class Agent(Protocol):
    """Reads what the agent received: `monitor.reader.Telemetry`."""

    def latest(self) -> dict[str, Any]: ...
    def names(self) -> Sequence[str]: ...
    def series(self, name: str, seconds: float) -> tuple[Any, Any]: ...


class Progress:
    """Holds the latest of each value reported by active jobs and by jobs that just ended."""

    def __init__(
        self, live_state: LiveState, agent: Callable[[], Agent | None], now_us: Callable[[], int]
    ) -> None:
        self._live_state, self._agent, self._now_us = live_state, agent, now_us
        self._reported: dict[int, dict[str, Any]] = {}
        self._ended: dict[int, tuple[int, Job]] = {}
        self._polled_us = 0

    def of(self, job: Job) -> dict[str, Any] | None:
        """Return its latest reported values; for a job that ended a while ago, those on record."""
        if not job.state.final:
            self._poll_agent()
        return self._reported.get(job.id) or job.values.get(PROGRESS)

    def hear(self, job: int, values: Mapping[str, Any]) -> None:
        """Take in values that a job reported."""
        self._reported[job] = {**self._reported.get(job, {}), **values}

    def _poll_agent(self) -> None:
        """Take in what the agent published about these jobs, at most once a second."""
        agent, now_us = self._agent(), self._now_us()
        if agent is None or now_us - self._polled_us < US_PER_S:
            return
        self._polled_us = now_us
        for name, value in agent.latest().items():
            job, field = _parse(name)
            if job in self._live_state.jobs or job in self._ended:
                self.hear(job, {field: value})

    def recall(self, jobs: Collection[int]) -> None:
        """Look up what jobs reported before this control plane started; they may not report again.

        The agent restarted as well, so a day of its files is read, in a thread of its own.
        """
        agent = self._agent()
        if agent is not None and jobs:
            newest = set(sorted(jobs)[-MAX_RECALLED:])
            threading.Thread(target=self._read_telemetry, args=(agent, newest), daemon=True).start()

    def _read_telemetry(self, agent: Agent, jobs: Collection[int]) -> None:
        for name in agent.names():
            job, field = _parse(name)
            if job in jobs:
                _times, values = agent.series(name, RECALLED_S)
                if len(values):
                    self._reported[job] = {field: float(values[-1]), **self._reported.get(job, {})}

    # For the loop and the journal ------------------------------------------------------

    def understood(
        self, reports: Sequence[Report], jobs: dict[int, Job], now_us: int
    ) -> list[AttemptReported]:
        """Turn reports into events; an end carries the job's latest reported values."""
        events = events_of(reports, jobs, now_us)
        if events:
            self._poll_agent()
        return [self._with_progress(event) for event in events]

    def _with_progress(self, event: AttemptReported) -> AttemptReported:
        values = self._reported.get(event.job)
        if not values or not isinstance(event, Ended | Requeued):
            return event
        return replace(event, values={**(event.values or {}), PROGRESS: values})

    def fold(self, events: Sequence[Event]) -> dict[int, Job]:
        """Fold events into jobs: the live state's fold, and reports that arrive after an end."""
        changes = self._live_state.fold(events)
        for event in events:
            if isinstance(event, Reported) and event.job in self._ended:
                _since_us, job = self._ended[event.job]
                changes[job.id] = replace(job, values={**job.values, PROGRESS: event.values})
        return changes

    def settle(self, events: Sequence[Event], changes: Mapping[int, Job]) -> dict[int, Job]:
        """Note what is now on record; return the changes without those made after an end."""
        now_us = self._now_us()
        for job in changes.values():
            if job.state.final:
                since_us, _before = self._ended.get(job.id, (now_us, job))
                self._ended[job.id] = since_us, job
        late = {event.job for event in events if isinstance(event, Reported)}
        for id_ in late:
            self._forget(id_)
        after = late | {event.job for event in events if isinstance(event, Notified)}
        return {id_: job for id_, job in changes.items() if id_ not in after}

    def late(self) -> list[Event]:
        """Return late reports of jobs that ended, again in each cycle until they are on record.

        Jobs without one are forgotten.
        """
        if not self._ended:
            return []
        self._poll_agent()
        now_us = self._now_us()
        events: list[Event] = []
        for since_us, job in list(self._ended.values()):
            if now_us - since_us < LATE_US:
                break  # all that follow ended later
            values = self._reported.get(job.id)
            if values and values != job.values.get(PROGRESS):
                events.append(Reported(now_us, job.id, values))
            else:
                self._forget(job.id)
        return events

    def _forget(self, job: int) -> None:
        self._ended.pop(job, None)
        self._reported.pop(job, None)


def _parse(name: str) -> tuple[int, str]:
    """Return job and field of `application.17.loss`; (0, "") for any other name."""
    number, dot, field = name.removeprefix(PREFIX).partition(".")
    if not name.startswith(PREFIX) or not dot or not number.isdecimal():
        return 0, ""
    return int(number), field
