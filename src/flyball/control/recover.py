"""Recovery after a start: reconcile with the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flyball.control.jobs.live_state import LiveState
from flyball.core.events import Event
from flyball.core.jobs import Job, JobState
from flyball.core.live import Report
from flyball.core.protocols import Engine, Journal

OVER = ("ended", "lost", "void")
"""Reports of attempts that are over."""


def reconcile(
    live_state: LiveState,
    journal: Journal,
    engine: Engine,
    understand: Callable[[Sequence[Report], dict[int, Job], int], Sequence[Event]],
    now_us: int,
) -> int:
    """Ask the engine about every attempt that was intended or running.

    Args:
        understand: turns reports into events.

    Returns:
        The number of attempts that turned out to be over.
    """
    active = [job for job in live_state.jobs.values() if job.state != JobState.PENDING]
    reports = engine.reconcile([(job.id, job.attempt) for job in active])
    events = understand(reports, live_state.jobs, now_us)
    if events:
        journal.append(events).wait()
    engine.acknowledge(reports)
    return sum(report.what in OVER for report in reports)
