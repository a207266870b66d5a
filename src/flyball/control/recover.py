"""After a start: read the journal, ask the engine, reconcile."""

from __future__ import annotations

from flyball.control.book import Book
from flyball.control.meaning import events_of
from flyball.core.jobs import JobState
from flyball.core.protocols import Engine, Journal


def reconcile(book: Book, journal: Journal, engine: Engine, now_us: int) -> int:
    """Find out what became of every attempt that was intended or running.

    Returns:
        How many attempts turned out to be over.
    """
    active = [job for job in book.jobs.values() if job.state != JobState.PENDING]
    reports = engine.reconcile([(job.id, job.attempt) for job in active])
    events = events_of(reports, book.jobs, now_us)
    if events:
        journal.append(events).wait()
    engine.acknowledge(reports)
    return sum(report.what != "started" for report in reports)
