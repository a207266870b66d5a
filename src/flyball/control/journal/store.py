"""The journal: all events, durable and in order, and the resulting state of every job.

    journal = Journal(path, live_state.fold, on_commit)
    number = journal.append([event, ...], key="...", answer={...}).wait()

One thread writes at a time. It takes everything appended since its last commit, writes it in one
transaction (the events, the jobs as they are afterwards, the answers), syncs once, calls
`on_commit`, and only then resolves the tickets. So many appends share the latency of one sync.

The effect of events on jobs is computed before the commit (`fold`, which changes nothing) and
applied in memory after it (`on_commit`). A commit that fails has changed nothing anywhere: there is
nothing to undo, and the numbers of its events are used again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from flyball.control.journal import sql
from flyball.control.journal.history import History, damaged, opening, unavailable
from flyball.control.journal.migrations import upgrade
from flyball.control.journal.schema import encode, event_row
from flyball.control.journal.sql import JobQuery
from flyball.control.journal.sqlite import is_outage, make_file, open_engine, path_of, quick_check
from flyball.control.journal.tickets import JournalUnavailable, Ticket
from flyball.core.events import Event
from flyball.core.jobs import Job

__all__ = ["JobQuery", "Journal", "JournalUnavailable", "Ticket"]

Changes = Mapping[int, Job]
Fold = Callable[[Sequence[Event]], Changes]
"""Returns the jobs that events change, as they are afterwards. Pure."""
OnCommit = Callable[[int, Sequence[Event], Changes], None]
"""Receives the number of the last event that is now durable, all those of the commit in order, and
the result of their `fold`."""

MAX_APPENDS = 1000
"""Maximum number of appends per transaction, so that none waits long for the others."""


@dataclass
class _Entry:
    """Holds one append that is not durable yet."""

    events: Sequence[Event]
    rows: list[dict[str, Any]]
    key: str
    answer: Any
    answer_text: str
    ticket: Ticket = field(default_factory=Ticket)
    seq: int = 0


class Journal(History):
    """Opens a journal for reading and writing. The state folder's lock ensures a single writer.

    Args:
        place: the file, as a path or as an SQLite URL; created if it does not exist, upgraded
            (after a backup) if it is of an older version.
        fold: computes the effect of events on jobs. Called by the writer before a commit.
        on_commit: called by the writer after every commit, in order, before the tickets are
            resolved. It must apply the changes that `fold` computed. It may append, but not wait.
            If it raises, the journal accepts nothing more: memory no longer follows the disk.
        inline: no thread: `append` commits before it returns. For tests on a virtual clock.

    Raises:
        BadInput: the file is damaged or of a newer version, or the folder cannot be written.
    """

    def __init__(
        self,
        place: str | Path,
        fold: Fold,
        on_commit: OnCommit | None = None,
        inline: bool = False,
    ) -> None:
        self.path = path_of(place)
        make_file(self.path)
        self._writer = open_engine(self.path, writes=True)
        with opening(self.path):
            if wrong := quick_check(self._writer, self.path):
                raise damaged(self.path, wrong)
            upgrade.bring_up(self._writer, self.path)
        super().__init__(place)
        self._fold, self._on_commit = fold, on_commit
        self._seq, self._last_us, _ = self.last()
        self._changed = threading.Condition()
        self._queue: list[_Entry] = []
        self._closed = False
        self.broken = ""
        """Why the journal accepts nothing more, "" = it does."""
        self._draining = False
        self.commits = 0
        """Transactions so far."""
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        if not inline:
            self._thread = threading.Thread(target=self._drain, name="journal", daemon=True)
            self._thread.start()

    def append(self, events: Sequence[Event], key: str = "", answer: Any = None) -> Ticket:
        """Queue events to be written, all of them or none.

        Args:
            events: the events; not to be changed afterwards. An empty list waits for earlier
                appends, and checks that the disk can be written.
            key: makes the append repeatable: if the key was used before, nothing is appended and
                the ticket has the answer of the first time.
            answer: any JSON value, stored under the key.
        """
        entry = _entry(events, key, answer)
        with self._changed:
            if self._closed:
                _fail([entry], _closed())
                return entry.ticket
            self._queue.append(entry)
            self._changed.notify()
        if self._thread is None:
            self._drain()
        return entry.ticket

    def record(self, events: Sequence[Event]) -> None:
        """Write events, all of them or none; they are durable when it returns.

        Does the same as `append` and waiting, but the calling thread writes if no other does: it
        would wait anyway, and being woken by another thread takes long on a busy machine.

        Raises:
            JournalUnavailable: they could not be written.
        """
        with self._changed:
            free = not (self._draining or self._queue or self._closed) and self._thread is not None
            self._draining |= free
        if not free:
            self.append(events).wait()
            return
        entry = _entry(events, "", None)
        try:
            self._settle([entry])
        finally:
            with self._changed:
                self._draining = False
                if self._queue or self._closed:
                    self._changed.notify()
        entry.ticket.wait()

    def close(self) -> None:
        """Write what was appended, then close the file. Later appends fail."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        if self._connection is not None:
            self._connection.close()
        self._writer.dispose()
        super().close()

    # The writer ------------------------------------------------------------------

    def _drain(self) -> None:
        """Write what is queued; the thread does so until the journal is closed."""
        while group := self._take():
            self._settle(group)
            with self._changed:
                self._draining = False

    def _take(self) -> list[_Entry]:
        """Return the next group to write.

        It is empty if nothing is left, or if another thread writes and will take it (for example
        when `on_commit` appends).
        """
        with self._changed:
            if self._thread is not None:
                self._changed.wait_for(lambda: not self._draining and (self._queue or self._closed))
            elif self._draining:
                return []
            group, self._queue = self._queue[:MAX_APPENDS], self._queue[MAX_APPENDS:]
            self._draining = bool(group)
            return group

    def _settle(self, group: list[_Entry]) -> None:
        """Commit a group and resolve its tickets, or fail them."""
        if self.broken:
            remedy = "start the control plane again: it begins from what is on the disk"
            _fail(group, JournalUnavailable(self.broken, remedy))
            return
        try:
            committed, changes = self._commit(group)
        except Exception as error:
            if isinstance(error, DBAPIError) and is_outage(error):
                _fail(group, unavailable(self.path, error))
            elif len(group) == 1:
                _fail(group, error)
            else:  # one entry is at fault: retry one by one, so that the others succeed
                for entry in group:
                    self._settle([entry])
            return
        try:
            if committed and self._on_commit is not None:
                self._on_commit(self._seq, committed, changes)
        except Exception as error:
            first = self._seq - len(committed) + 1
            self.broken = f"memory does not follow the journal since event {first} ({error!r})"
            self._settle(group)
            return
        for entry in group:
            entry.ticket.future.set_result(entry.seq)

    def _commit(self, group: list[_Entry]) -> tuple[list[Event], Changes]:
        """Write one transaction. The journal's state in memory changes only if it succeeds."""
        seq, last_us = self._seq, self._last_us
        committed: list[Event] = []
        rows: list[dict[str, Any]] = []
        answers: list[dict[str, Any]] = []
        with self._transaction() as connection:
            # 1. Number what is new; a repeated key gets the answer of the first time.
            wanted_keys = {entry.key for entry in group if entry.key}
            stored = sql.answers(connection, wanted_keys) if wanted_keys else {}
            for entry in group:
                entry.ticket.repeated = entry.key in stored
                if entry.ticket.repeated:
                    entry.ticket.answer, entry.seq = stored[entry.key]
                    continue
                for event, row in zip(entry.events, entry.rows, strict=True):
                    seq += 1
                    last_us = max(last_us, event.time_us)
                    committed.append(event)
                    row["seq"] = seq
                    rows.append(row)
                entry.ticket.answer, entry.seq = entry.answer, seq
                if entry.key:
                    stored[entry.key] = sql.Answer(entry.answer, seq)
                    answers.append(
                        {
                            "key": entry.key,
                            "answer": entry.answer_text,
                            "seq": seq,
                            "time_us": last_us,
                        }
                    )
            # 2. Compute the changes of jobs, and write everything.
            changes = self._fold(committed)
            new = {row["job"]: row["spec"] for row in rows if "spec" in row}
            # Without events a fact is still written, to check that the disk can be written.
            facts = {"last_us": str(last_us)} if rows else {"tried": str(self.commits)}
            sql.write(connection, rows, changes.values(), new, answers, facts)
        self._seq, self._last_us = seq, last_us
        self.commits += 1
        return committed, changes

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        # The writer keeps its connection: opening one costs more than a small transaction.
        connection = self._connection = self._connection or self._writer.connect()
        try:
            with connection.begin():
                yield connection
        except BaseException:
            self._connection = None  # the next one starts from a clean connection
            connection.invalidate()
            connection.close()
            raise


def _entry(events: Sequence[Event], key: str, answer: Any) -> _Entry:
    return _Entry(
        tuple(events), [event_row(event) for event in events], key, answer, encode(answer)
    )


def _closed() -> JournalUnavailable:
    return JournalUnavailable("the journal is closed", "open it again")


def _fail(group: Sequence[_Entry], error: Exception) -> None:
    for entry in group:
        entry.ticket.future.set_exception(error)
