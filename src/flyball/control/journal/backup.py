"""Writes backups of a journal and restores them. A replaced journal is kept in the same folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from flyball.control.journal.history import damaged
from flyball.control.journal.job_numbers import keep_at_least
from flyball.control.journal.migrations import upgrade
from flyball.control.journal.sqlite import copy_to_draft, sync
from flyball.core.errors import BadInput, Conflict, FlyballError

SIDE_FILES = ("-wal", "-shm")


class Contents(NamedTuple):
    """Summarises a journal: jobs, the number and time of its last event, its revision."""

    jobs: int
    events: int
    last_us: int
    revision: str


def write_backup(journal: Path, out: Path, force: bool = False) -> Contents:
    """Copy a journal, even while it is being written. The copy is checked, synced and complete.

    Raises:
        BadInput: there is no journal, it is damaged, or the backup cannot be written there.
        Conflict: the file exists and `force` is not set.
    """
    if not out.parent.is_dir():
        raise BadInput(f"{out.parent} is not a folder", "make it first, or name another")
    if out.exists() and journal.exists() and out.samefile(journal):
        raise BadInput(f"{out} is the journal itself", "name another file")
    if out.exists() and not force:
        raise Conflict(f"{out} exists", "name another file, or replace it with --force")
    if not journal.is_file():
        raise BadInput(f"{journal} does not exist", "check the path of the state folder")
    with _open(journal) as database:
        draft = copy_to_draft(database, out)
    try:
        contents = examine(draft)
        if force:
            draft.replace(out)
        else:
            os.link(draft, out)  # fails if a file has appeared in the meantime
    except FileExistsError:
        raise Conflict(f"{out} exists", "name another file, or replace it with --force") from None
    finally:
        draft.unlink(missing_ok=True)
    sync(out.parent)
    return contents


def restore_backup(backup: Path, journal: Path, stamp: str) -> tuple[Contents, Path | None]:
    """Replace a journal by a backup. It must not be in use: the caller holds the state folder.

    A kill at any point leaves the old journal or the new one.

    Args:
        stamp: becomes part of the name under which the old journal is kept.

    Returns:
        The contents of the new journal, and the path of the old one (None: there was none).

    Raises:
        BadInput: the backup is damaged, not a journal, or of a newer version.
    """
    if not backup.is_file():
        raise BadInput(f"{backup} does not exist", "name a file that `flyball backup` wrote")
    if journal.exists() and backup.samefile(journal):
        raise BadInput(f"{backup} is the journal itself", "name a backup of it")
    contents = examine(backup)
    with _open(backup) as database:
        draft = copy_to_draft(database, journal)
    # 1. No job number of the old journal, or of files it left, is assigned again.
    keep_at_least(journal.parent, _next_job(journal))
    # 2. Keep the old one. Its write-ahead log is merged into it, or kept as well if that fails.
    kept = _keep(journal, stamp) if journal.exists() else None
    # 3. A log left behind would be applied to the new file.
    for ending in SIDE_FILES:
        journal.with_name(journal.name + ending).unlink(missing_ok=True)
    draft.replace(journal)
    sync(journal.parent)
    return contents, kept


def examine(path: Path) -> Contents:
    """Check a copy of a journal in full.

    Raises:
        BadInput: it is damaged, not a journal, or of a newer version.
    """
    with _open(path) as database:
        wrong = str(database.execute("PRAGMA integrity_check(1)").fetchone()[0])
        if wrong != "ok":
            raise damaged(path, wrong.splitlines()[-1])
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        if "alembic_version" not in tables:
            raise BadInput(f"{path} is not a journal", "name a file that `flyball backup` wrote")
        stated = database.execute("SELECT version_num FROM alembic_version").fetchone()
        if stated is None:
            raise damaged(path, "its table alembic_version is empty")
        if stated[0] > upgrade.HEAD:
            raise upgrade.newer(path, stated[0])
        jobs = database.execute("SELECT count(*) FROM jobs").fetchone()[0]
        events = database.execute(
            "SELECT max((SELECT ifnull(max(seq), 0) FROM events),"
            " (SELECT ifnull(max(seq), 0) FROM decisions))"
        ).fetchone()[0]
        last = database.execute("SELECT value FROM meta WHERE name = 'last_us'").fetchone()
    return Contents(jobs, events, int(last[0]) if last else 0, str(stated[0]))


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading only.

    Raises:
        BadInput: it is damaged, or not a database.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            yield database
    except sqlite3.Error as error:
        raise damaged(path, str(error)) from error


def _next_job(journal: Path) -> int:
    """Return the first job number a journal has not used; 1 if it cannot be read."""
    if not journal.exists():
        return 1
    try:
        with _open(journal) as database:
            return int(database.execute("SELECT ifnull(max(id), 0) + 1 FROM jobs").fetchone()[0])
    except FlyballError:
        return 1


def _keep(journal: Path, stamp: str) -> Path:
    """Link the old journal and its side files under a second name."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(journal)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    kept = journal.with_name(f"{journal.name}.replaced-{stamp}")
    for ending in ("", *SIDE_FILES):
        with suppress(FileNotFoundError):
            os.link(journal.with_name(journal.name + ending), kept.with_name(kept.name + ending))
    return kept
