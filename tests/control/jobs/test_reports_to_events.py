"""Events from an engine's reports."""

from __future__ import annotations

from typing import Any

import pytest
from tests.control.live_cases import START_US, spec_of

from flyball.control.jobs.reports_to_events import MAX_LOST, events_of
from flyball.core.events import Requeued
from flyball.core.jobs import Job, JobState
from flyball.core.live import Report

NOW = START_US + 100
OVER = START_US + 50


def job_of(stopping: str = "", **values: Any) -> Job:
    asked = {name: values.pop(name) for name in ("requeue",) if name in values}
    state = JobState.COMPLETING if stopping else JobState.RUNNING
    about = {"state": state, "attempt": 1, "since_us": START_US, "stopping": stopping}
    return Job(1, spec_of(**asked), START_US, **{**about, **values})


def event_of(job: Job, what: str, time_us: int = OVER, **values: Any) -> Any:
    events = events_of([Report(1, job.attempt, what, time_us, values)], {1: job}, NOW)
    assert len(events) < 2
    return events[0] if events else None


def outcome(job: Job, what: str, **values: Any) -> tuple[Any, ...]:
    event = event_of(job, what, **values)
    assert event is not None
    assert (event.time_us, event.job, event.attempt) == (NOW, 1, job.attempt)
    if isinstance(event, Requeued):
        return event.kind, event.why, ""
    return event.kind, event.state, event.reason or ""


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    [
        ({"exit_code": 0, "signal": 0, "why": "exit"}, "COMPLETED", ""),
        ({"exit_code": 3, "signal": 0, "why": "exit"}, "FAILED", ""),
        ({"exit_code": 0, "signal": 11, "why": "exit"}, "FAILED", ""),
        ({"exit_code": 0, "signal": 9, "why": "limit", "message": "10 s"}, "TIMEOUT", "10 s"),
        ({"signal": 9, "why": "memory", "message": "over"}, "OUT_OF_MEMORY", "over"),
        ({"exit_code": 127, "why": "boot", "message": "no such file"}, "BOOT_FAIL", "no such file"),
        ({"signal": 15, "why": "stopped"}, "FAILED", "stopped-from-outside"),
    ],
)
def test_ends(values: dict[str, Any], state: str, reason: str) -> None:
    assert outcome(job_of(), "ended", **values) == ("ended", state, reason)
    event = event_of(job_of(), "ended", **values)
    assert event is not None
    assert (event.over_us, event.values) == (OVER, values)


def test_stopped_jobs() -> None:
    stopped = {"exit_code": 0, "signal": 15, "why": "stopped"}
    assert outcome(job_of("cancel"), "ended", **stopped) == ("ended", "CANCELLED", "")
    assert outcome(job_of("preempt"), "ended", **stopped) == ("requeued", "preempt", "")


@pytest.mark.parametrize("stopping", ["cancel", "preempt"])
def test_a_job_that_exits_just_before_the_stop_has_ended(stopping: str) -> None:
    done = {"exit_code": 0, "signal": 0, "why": "exit"}
    assert outcome(job_of(stopping), "ended", **done) == ("ended", "COMPLETED", "")


def test_lost_supervisors() -> None:
    assert outcome(job_of(), "lost") == ("requeued", "lost", "")
    assert outcome(job_of("preempt"), "lost") == ("requeued", "lost", "")
    assert outcome(job_of("cancel"), "lost") == ("ended", "CANCELLED", "")
    gone = ("ended", "NODE_FAIL", "supervisor-lost")
    assert outcome(job_of(requeue=False), "lost") == gone
    assert outcome(job_of(failures=MAX_LOST), "lost") == gone
    assert outcome(job_of(failures=MAX_LOST - 1), "lost") == ("requeued", "lost", "")


def test_what_never_began() -> None:
    assert outcome(job_of(requeue=False), "void") == ("requeued", "void", "")
    assert outcome(job_of("cancel"), "void") == ("ended", "CANCELLED", "")


def test_a_start_causes_one_event() -> None:
    event = event_of(job_of(), "started", pid=7)
    assert event is not None
    assert (event.kind, event.began_us, event.pid) == ("started", OVER, 7)
    assert event_of(job_of(started_us=START_US), "started", pid=7) is None


def test_nothing_ends_before_it_began() -> None:
    event = event_of(job_of(started_us=NOW), "ended", START_US - 5, exit_code=0)
    assert event is not None
    assert event.over_us == NOW
    event = event_of(job_of(), "ended", START_US - 5, exit_code=0)
    assert event is not None
    assert event.over_us == START_US


@pytest.mark.parametrize("what", ["started", "ended", "lost", "void"])
def test_reports_about_the_past_mean_nothing(what: str) -> None:
    reports = [Report(1, 1, what, OVER, {}), Report(9, 1, what, OVER, {})]
    assert events_of(reports, {1: job_of(attempt=2)}, NOW) == []
    assert events_of(reports, {1: job_of(state=JobState.PENDING)}, NOW) == []
