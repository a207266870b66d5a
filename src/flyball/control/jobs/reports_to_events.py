"""Turns an engine's reports into events about jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flyball.control.jobs.live_state import QUEUED, REFERENCE
from flyball.core.events import Accepted, Ended, Queued, Requeued, Started
from flyball.core.jobs import Job, JobState
from flyball.core.live import Report

MAX_LOST = 10
"""Maximum number of times a job is requeued because its supervisor was lost."""

STATE_OF_CAUSE = {
    "limit": JobState.TIMEOUT,
    "memory": JobState.OUT_OF_MEMORY,
    "boot": JobState.BOOT_FAIL,
    "processes": JobState.FAILED,
}
"""Final state for each cause of an end other than an exit or a stop."""


AttemptReported = Accepted | Queued | Started | Ended | Requeued


def events_of(
    reports: Iterable[Report], jobs: dict[int, Job], now_us: int
) -> list[AttemptReported]:
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


def _event_of(report: Report, job: Job, now_us: int) -> AttemptReported | None:
    about = now_us, job.id, job.attempt
    if report.what == "accepted":
        reference = str(report.values.get("reference", ""))
        return None if job.values.get(REFERENCE) == reference else Accepted(*about, reference)
    if report.what in ("queued", "unknown"):
        reason = str(report.values.get("message", ""))
        told = job.values.get(QUEUED) == [report.what, reason]
        return None if told else Queued(*about, report.what, reason)
    if report.what == "started":
        if job.started_us:
            return None
        values = report.values
        return Started(*about, report.time_us, values.get("pid", 0), values.get("rows"))
    over_us = max(report.time_us, job.started_us or job.since_us)
    values = dict(report.values)
    if report.what == "ended":
        return _end(job, now_us, over_us, values)
    if job.stopping == "cancel":
        return Ended(*about, over_us, JobState.CANCELLED, values=values)
    if report.what == "void":
        return Requeued(*about, over_us, "void")
    if job.spec.requeue and job.failures < MAX_LOST:
        return Requeued(*about, over_us, "lost")
    return Ended(*about, over_us, JobState.NODE_FAIL, "supervisor-lost")


def _end(job: Job, now_us: int, over_us: int, values: dict[str, Any]) -> Ended | Requeued:
    """Return the event of an end that the supervisor recorded."""
    about = now_us, job.id, job.attempt, over_us
    why = str(values.get("why", "exit"))
    if why in STATE_OF_CAUSE:
        return Ended(*about, STATE_OF_CAUSE[why], values.get("message", ""), values)
    if why == "stopped" and job.stopping == "preempt":
        return Requeued(*about, "preempt", values)
    if why == "stopped" and job.stopping == "cancel":
        return Ended(*about, JobState.CANCELLED, values=values)
    if values.get("exit_code") == 0 and not values.get("signal"):
        return Ended(*about, JobState.COMPLETED, values=values)
    reason = "stopped-from-outside" if why == "stopped" else ""
    return Ended(*about, JobState.FAILED, reason, values)
