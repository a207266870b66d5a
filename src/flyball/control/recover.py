"""Recovery after a start: reconcile with the engine, and cancel jobs that can no longer run."""

from __future__ import annotations

from collections.abc import Callable

from flyball.control.jobs.live_state import LiveState
from flyball.control.jobs.reports_to_events import events_of
from flyball.core.errors import BadInput
from flyball.core.events import CancelRequested
from flyball.core.jobs import JobSpec, JobState
from flyball.core.protocols import Engine, Journal


def reconcile(live_state: LiveState, journal: Journal, engine: Engine, now_us: int) -> int:
    """Ask the engine about every attempt that was intended or running.

    Returns:
        The number of attempts that turned out to be over.
    """
    active = [job for job in live_state.jobs.values() if job.state != JobState.PENDING]
    reports = engine.reconcile([(job.id, job.attempt) for job in active])
    events = events_of(reports, live_state.jobs, now_us)
    if events:
        journal.append(events).wait()
    engine.acknowledge(reports)
    return sum(report.what != "started" for report in reports)


def give_up_unfit(
    live_state: LiveState, journal: Journal, check: Callable[[JobSpec], None], now_us: int
) -> int:
    """Cancel jobs that were accepted on other nodes and can never run on these; return how many.

    One such job left in the queue would make every decision fail.
    """
    events: list[CancelRequested] = []
    for job in live_state.jobs.values():
        if job.state == JobState.PENDING:
            try:
                check(job.spec)
            except BadInput as error:
                why = f"cannot run here: {error}"
                events.append(CancelRequested(now_us, job.id, "flyball", why))
    if events:
        journal.append(events).wait()
    return len(events)
