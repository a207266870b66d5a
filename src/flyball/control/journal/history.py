"""Reads a journal: jobs, events, decisions, answers; and explains what is wrong with a bad file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from flyball.control.journal import sql
from flyball.control.journal.migrations import upgrade
from flyball.control.journal.schema import BadRow, Recorded, numbered_events
from flyball.control.journal.sql import JobQuery, Last, Page
from flyball.control.journal.sqlite import back_up, open_engine, path_of, quick_check
from flyball.control.journal.tickets import JournalUnavailable
from flyball.core.errors import BadInput, FlyballError
from flyball.core.events import Event, Opened
from flyball.core.jobs import Job, JobState
from flyball.core.live import LiveNode

T = TypeVar("T")


class History:
    """Opens a journal for reading only. Safe from any thread, also while another process writes.

    Args:
        place: the file, as a path or as an SQLite URL.

    Raises:
        BadInput: no such file, a damaged one, or one of another version.
    """

    def __init__(self, place: str | Path) -> None:
        self.path = path_of(place)
        if not self.path.is_file():
            raise BadInput(f"{self.path} does not exist", "check the path of the state folder")
        self._readers = open_engine(self.path, writes=False)
        with opening(self.path):
            upgrade.check(self._readers, self.path)

    def _read(self, query: Callable[..., T], *arguments: Any) -> T:
        try:
            with self._readers.connect() as connection:
                return query(connection, *arguments)
        except DBAPIError as error:
            raise refused(self.path, error) from error
        except BadRow as error:
            raise damaged(self.path, str(error)) from error
        except (OverflowError, UnicodeEncodeError) as error:
            raise BadInput(
                f"the query has a value that cannot be searched for ({error})", "correct it"
            ) from None

    def last(self) -> Last:
        """Return its position: (seq, time_us, next_job)."""
        return self._read(sql.last)

    def last_decision(self) -> int:
        """Return the number of the last decision, 0 = none."""
        return self._read(sql.last_decision)

    def active(self) -> list[Job]:
        """Return the jobs that have not ended, by id."""
        return self._read(sql.active)

    def final_states(self) -> list[tuple[int, JobState]]:
        """Return the final state of every ended job."""
        return self._read(sql.final_states)

    def ended(self, limit: int = 1000, since_us: int = 1) -> list[Job]:
        """Return the jobs that ended last, at `since_us` or later, the latest first."""
        return self._read(sql.ended, limit, since_us)

    def ended_with_targets(self, since_us: int) -> list[Job]:
        """Return jobs with notification targets that ended since then, the earliest end first."""
        return self._read(sql.ended_with_targets, since_us)

    def job(self, job_id: int) -> Job | None:
        """Return one job, None if there is none of that id."""
        return self._read(sql.job, job_id)

    def jobs(self, query: JobQuery | None = None) -> Page:
        """Return a page of jobs, newest first."""
        return self._read(sql.page, query or JobQuery())

    def counts(self) -> dict[JobState, int]:
        """Return the number of jobs in each state; states without jobs are left out."""
        return self._read(sql.counts)

    def events(
        self, after: int = 0, limit: int = 1000, kinds: Sequence[str] = (), job: int = 0
    ) -> list[tuple[int, Event]]:
        """Return events numbered above `after`, in order, decisions included.

        Args:
            after: a number; 0 = from the beginning.
            limit: at most 10,000.
            kinds: only these kinds, all if empty.
            job: only events about this job, 0 = all events.
        """

        def read(connection: Connection) -> list[tuple[int, Event]]:
            return numbered_events(sql.read_events(connection, after, limit, kinds, job))

        return self._read(read)

    def records(
        self, after: int = 0, limit: int = 1000, kinds: Sequence[str] = (), job: int = 0
    ) -> list[Recorded]:
        """Return the same events as they were recorded, with fields of newer versions."""
        return self._read(sql.read_events, after, limit, kinds, job)

    def decisions(self, after: int = 0, limit: int = 1000) -> list[Recorded]:
        """Return decisions with a `number` above `after` as they were recorded, with their seq."""
        return self._read(sql.read_decisions, after, limit)

    def last_opened(self) -> tuple[int, Opened]:
        """Return the event with which the last control plane began, and its number.

        Raises:
            BadInput: there was no control plane.
        """

        def read(connection: Connection) -> list[tuple[int, Event]]:
            recorded = sql.last_event(connection, Opened.kind)
            return numbered_events([recorded] if recorded else ())

        for seq, event in self._read(read):
            if isinstance(event, Opened):
                return seq, event
        raise BadInput("the journal is empty: no control plane has used it", "check the path")

    def answer(self, key: str) -> sql.Answer | None:
        """Return what was stored under a key: (value, seq); None if the key was never used."""
        return self._read(sql.answers, [key]).get(key)

    def export(self, path: Path) -> list[str]:
        """Write the whole history as a trace that `flyball replay` reads.

        Args:
            path: the file, `.jsonl` or `.jsonl.gz`; one that exists is replaced.

        Returns:
            A line for each reason to leave jobs out, with how many.

        Raises:
            BadInput: there is no job that ran.
        """
        from flyball.control.journal.export import demand_of, to_workload
        from flyball.twin.inputs.traces.journal_write import write

        demand = demand_of(self.last_opened()[1])
        notes: list[str] = []
        write(to_workload(self.every_job(), demand.device, demand.of, notes), path)
        return notes

    def nodes(self) -> list[LiveNode]:
        """Return the nodes of the last control plane.

        Raises:
            BadInput: there was no control plane.
        """
        from flyball.control.jobs.request import nodes_of

        return nodes_of(self.last_opened()[1])

    def every_job(self) -> Iterator[Job]:
        """Yield all jobs, newest first, read page by page."""
        after_id = 0
        while True:
            jobs, after_id = self.jobs(JobQuery(limit=sql.MAX_PAGE, after_id=after_id))
            yield from jobs
            if not after_id:
                return

    def back_up(self, path: Path) -> None:
        """Write a consistent copy of the whole file while it is in use."""
        with opening(self.path):
            back_up(self._readers, path)

    def close(self) -> None:
        """Close the file."""
        self._readers.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def check_intact(path: Path) -> int:
    """Check a journal (up to a size, see `quick_check`); return its number of jobs.

    Raises:
        FlyballError: it is damaged, of another version, not a journal, or cannot be read now.
    """
    with History(path) as history:
        with opening(path):
            if wrong := quick_check(history._readers, path):
                raise damaged(path, wrong)
        return sum(history.counts().values())


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Turn database errors into errors for the user.

    Raises:
        BadInput: the file is damaged, or not a database.
        JournalUnavailable: it cannot be used at the moment.
    """
    try:
        yield
    except DBAPIError as error:
        raise refused(path, error) from error
    except sqlite3.DatabaseError as error:  # from a copy, which bypasses SQLAlchemy
        raise damaged(path, str(error)) from error


def refused(path: Path, error: DBAPIError) -> FlyballError:
    """Return the error to raise: damage of the file, or a condition that may pass."""
    why = str(error.orig)
    if any(word in why for word in ("malformed", "not a database", "no such table")):
        return damaged(path, why)
    return unavailable(path, error)


def damaged(path: Path, wrong: str) -> BadInput:
    """Return the error for a damaged file, with the newest backup as the remedy if there is one."""
    backups = sorted(
        path.parent.glob(f"{path.name}.before-*"), key=lambda file: file.stat().st_mtime
    )
    if backups:
        remedy = f"restore {backups[-1].name}, the copy before the last upgrade (`flyball restore`)"
    else:
        remedy = (
            "restore a backup (`flyball restore FILE`), "
            f"or try `sqlite3 {path.name} .recover`; there is no copy here"
        )
    return BadInput(f"{path} is damaged ({wrong})", remedy)


def unavailable(path: Path, error: DBAPIError) -> JournalUnavailable:
    """Return the error for a file that cannot be used at the moment."""
    why = str(error.orig)
    remedy = "check the disk; what was not confirmed is not done, so it is safe to try again"
    if "full" in why:
        remedy = f"free space where {path.parent} is, then try again"
    elif "locked" in why:
        remedy = "another process holds the file: wait for it or end it, then try again"
    return JournalUnavailable(f"{path.name} cannot be used ({why})", remedy)
