"""Reading a journal: jobs, events, decisions, answers; and what is wrong with a bad file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy.exc import DBAPIError

from flyball.control.journal import sql
from flyball.control.journal.migrations import upgrade
from flyball.control.journal.schema import BadRow
from flyball.control.journal.sql import JobQuery, Last, Page
from flyball.control.journal.sqlite import back_up, open_engine, path_of, quick_check
from flyball.control.journal.tickets import JournalUnavailable
from flyball.core.errors import BadInput, FlyballError
from flyball.core.jobs import Job, JobState
from flyball.core.live import Event, EventKind, LiveNode

T = TypeVar("T")


class History:
    """A journal that is only read. Safe from any thread, also while another process writes.

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
            raise BadInput(f"nothing can be found by that ({error})", "correct it") from None

    def last(self) -> Last:
        """Where it stands: (seq, time_us, next_job)."""
        return self._read(sql.last)

    def last_decision(self) -> int:
        """The number of the last decision, 0 = none."""
        return self._read(sql.last_decision)

    def active(self) -> list[Job]:
        """Jobs that have not ended, by id."""
        return self._read(sql.active)

    def final_states(self) -> list[tuple[int, JobState]]:
        """How each job ended that has."""
        return self._read(sql.final_states)

    def ended(self, limit: int = 1000) -> list[Job]:
        """The jobs that ended last, the latest first."""
        return self._read(sql.ended, limit)

    def ended_with_targets(self, since_us: int) -> list[Job]:
        """Jobs that ended since then and state whom to notify, the earliest end first."""
        return self._read(sql.ended_with_targets, since_us)

    def job(self, job_id: int) -> Job | None:
        """One job, None if there is none of that id."""
        return self._read(sql.job, job_id)

    def jobs(self, query: JobQuery | None = None) -> Page:
        """A page of jobs, newest first."""
        return self._read(sql.page, query or JobQuery())

    def counts(self) -> dict[JobState, int]:
        """Jobs in each state; states without any are not there."""
        return self._read(sql.counts)

    def events(
        self, after: int = 0, limit: int = 1000, kinds: Sequence[str] = (), job: int = 0
    ) -> list[tuple[int, Event]]:
        """Events numbered above `after`, in order, decisions among them.

        Args:
            after: a number; 0 = from the beginning.
            limit: at most 10,000.
            kinds: only these, all if empty.
            job: only about this one, 0 = any or none.
        """
        return self._read(sql.read_events, after, limit, kinds, job)

    def decisions(self, after: int = 0, limit: int = 1000) -> list[tuple[int, Event]]:
        """Decisions with a `number` above `after`, as the events they are, each with its seq."""
        return self._read(sql.read_decisions, after, limit)

    def answer(self, key: str) -> sql.Answer | None:
        """What was stored under a key: (value, seq); None if the key was never used."""
        return self._read(sql.answers, [key]).get(key)

    def export(self, path: Path) -> list[str]:
        """Write the whole history as a trace that `flyball replay` reads.

        Args:
            path: the file, `.jsonl` or `.jsonl.gz`; one that exists is replaced.

        Returns:
            What was left out and how many, a line each.

        Raises:
            BadInput: there is no job that ran.
        """
        from flyball.control.journal.export import demand_of, to_workload
        from flyball.twin.inputs.traces.journal_write import write

        demand = demand_of(self._read(sql.last_event, EventKind.OPENED))
        notes: list[str] = []
        write(to_workload(self._every_job(), demand.device, demand.of, notes), path)
        return notes

    def nodes(self) -> list[LiveNode]:
        """The nodes that the last control plane had.

        Raises:
            BadInput: there was none.
        """
        from flyball.control.jobs.request import nodes_of

        return nodes_of(self._read(sql.last_event, EventKind.OPENED))

    def _every_job(self) -> Iterator[Job]:
        after_id = 0
        while True:
            found, after_id = self.jobs(JobQuery(limit=sql.MOST, after_id=after_id))
            yield from found
            if not after_id:
                return

    def back_up(self, path: Path) -> None:
        """A consistent copy of the whole file, made while it is in use."""
        with opening(self.path):
            back_up(self._readers, path)

    def close(self) -> None:
        """Let go of the file."""
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


def check_whole(path: Path) -> int:
    """Read through a journal (up to a size, see `quick_check`); how many jobs it has.

    Raises:
        FlyballError: it is damaged, of another version, no journal, or cannot be read now.
    """
    with History(path) as history:
        with opening(path):
            if wrong := quick_check(history._readers, path):
                raise damaged(path, wrong)
        return sum(history.counts().values())


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """What the database says of a bad file, in words.

    Raises:
        BadInput: the file is damaged, or no database.
        JournalUnavailable: it cannot be used just now.
    """
    try:
        yield
    except DBAPIError as error:
        raise refused(path, error) from error
    except sqlite3.DatabaseError as error:  # of a copy, which SQLAlchemy has no part in
        raise damaged(path, str(error)) from error


def refused(path: Path, error: DBAPIError) -> FlyballError:
    """What the database says, as damage of the file or as something that may pass."""
    why = str(error.orig)
    if any(word in why for word in ("malformed", "not a database", "no such table")):
        return damaged(path, why)
    return unavailable(path, error)


def damaged(path: Path, wrong: str) -> BadInput:
    backups = sorted(
        path.parent.glob(f"{path.name}.before-*"), key=lambda each: each.stat().st_mtime
    )
    if backups:
        remedy = (
            f"put back {backups[-1].name}, the copy before the last upgrade (`flyball restore`)"
        )
    else:
        remedy = (
            "put back a backup (`flyball restore FILE`), "
            f"or try `sqlite3 {path.name} .recover`; there is no copy here"
        )
    return BadInput(f"{path} is damaged ({wrong})", remedy)


def unavailable(path: Path, error: DBAPIError) -> JournalUnavailable:
    why = str(error.orig)
    remedy = "check the disk; what was not confirmed is not done, so it is safe to try again"
    if "full" in why:
        remedy = f"free space where {path.parent} is, then try again"
    elif "locked" in why:
        remedy = "another process holds the file: wait for it or end it, then try again"
    return JournalUnavailable(f"{path.name} cannot be used ({why})", remedy)
