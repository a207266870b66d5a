"""Turns an engine's reports into events about jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flyball.core.jobs import Job, JobState
from flyball.core.live import Event, EventKind, Report

MAX_LOST = 10
"""Maximum number of times a job is requeued because its supervisor was lost."""

STATE_OF_CAUSE = {
    "limit": JobState.TIMEOUT,
    "memory": JobState.OUT_OF_MEMORY,
    "boot": JobState.BOOT_FAIL,
    "processes": JobState.FAILED,
}
"""Final state for each cause of an end other than an exit or a stop."""


def events_of(reports: Iterable[Report], jobs: dict[int, Job], now_us: int) -> list[Event]:
    """Return the events that reports cause; reports that add nothing new cause none."""
    events = []
    for report in reports:
        job = jobs.get(report.job)
        if job is None or job.attempt != report.attempt or job.state == JobState.PENDING:
            continue
        event = _event_of(report, job, now_us)
        if event is not None:
            events.append(event)
    return events


def _event_of(report: Report, job: Job, now_us: int) -> Event | None:
    about = {"time_us": now_us, "job": job.id, "attempt": job.attempt}
    if report.what == "started":
        if job.started_us:
            return None
        began = {"began_us": report.time_us, "pid": report.values.get("pid", 0)}
        return {"kind": EventKind.STARTED, **about, **began}
    about["over_us"] = max(report.time_us, job.started_us or job.since_us)
    values = dict(report.values)
    if report.what == "ended":
        return {**about, **_end(job, values), "values": values}
    if job.stopping == "cancel":
        return {"kind": EventKind.ENDED, **about, "state": JobState.CANCELLED, "values": values}
    if report.what == "void":
        return {"kind": EventKind.REQUEUED, **about, "why": "void"}
    if job.spec.requeue and job.failures < MAX_LOST:
        return {"kind": EventKind.REQUEUED, **about, "why": "lost"}
    reason = "supervisor-lost"
    return {"kind": EventKind.ENDED, **about, "state": JobState.NODE_FAIL, "reason": reason}


def _end(job: Job, values: dict[str, Any]) -> dict[str, Any]:
    """Return the event fields for an end that the supervisor recorded."""
    why = str(values.get("why", "exit"))
    if why in STATE_OF_CAUSE:
        return {
            "kind": EventKind.ENDED,
            "state": STATE_OF_CAUSE[why],
            "reason": values.get("message", ""),
        }
    if why == "stopped" and job.stopping == "preempt":
        return {"kind": EventKind.REQUEUED, "why": "preempt"}
    if why == "stopped" and job.stopping == "cancel":
        return {"kind": EventKind.ENDED, "state": JobState.CANCELLED}
    if values.get("exit_code") == 0 and not values.get("signal"):
        return {"kind": EventKind.ENDED, "state": JobState.COMPLETED}
    reason = "stopped-from-outside" if why == "stopped" else ""
    return {"kind": EventKind.ENDED, "state": JobState.FAILED, "reason": reason}
