"""Everything specific to SQLite: the file, its settings, checking and copying it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, make_url
from sqlalchemy import event as hook
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError

from flyball.control.journal.tickets import JournalUnavailable
from flyball.core.errors import BadInput

BUSY_MS = 10_000
"""Timeout for another process that locks the file, such as a backup."""
CHECKED_BYTES = 128 * 2**20
"""Larger files are not checked in full when opened; SQLite still detects damage that it reads."""
CACHE_KIB = 16_384


def path_of(place: str | Path) -> Path:
    """Return the file that a path or an SQLite URL names.

    Raises:
        BadInput: it does not name a file.
    """
    if isinstance(place, Path) or "://" not in place:
        return Path(place)
    try:
        url = make_url(place)
    except ArgumentError:
        raise BadInput(f"{place!r} is not a database URL", "use sqlite:////DIR/FILE") from None
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        why = f"a journal cannot be kept in {url.render_as_string()!r}"
        raise BadInput(why, "use a file, as a path or as sqlite:////DIR/FILE")
    return Path(str(url.database))


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read: jobs carry their environment.

    Raises:
        BadInput: it cannot be created.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        sync(path.parent)
    except OSError as error:
        raise BadInput(f"{path} cannot be opened ({error.strerror})", "check the folder") from None


def open_engine(path: Path, writes: bool) -> Engine:
    """Return a pool of connections to a file: one that writes, or several that only read."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        poolclass=QueuePool,
        pool_size=1 if writes else 4,
        max_overflow=0 if writes else -1,
        connect_args={"isolation_level": None, "check_same_thread": False},
        paramstyle="named",
    )
    settings = [f"busy_timeout={BUSY_MS}", f"cache_size=-{CACHE_KIB}"]
    # The write-ahead log is synced at every commit: what is committed survives a power cut.
    settings += ["journal_mode=WAL", "synchronous=FULL"] if writes else ["query_only=1"]

    @hook.listens_for(engine, "connect")
    def _set(connection: sqlite3.Connection, _: object) -> None:
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")

    # A transaction that reads first and then writes must hold the file from its beginning.
    begin = "BEGIN IMMEDIATE" if writes else "BEGIN"

    @hook.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def is_outage(error: Exception) -> bool:
    """Whether the database was unable to work, rather than given a wrong statement."""
    return isinstance(error, OperationalError) or type(error) is DatabaseError


def quick_check(engine: Engine, path: Path) -> str:
    """Return what is wrong inside the file, "" = nothing, or it is too large to be checked."""
    if path.stat().st_size > CHECKED_BYTES:
        return ""
    with engine.connect() as connection:
        result = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    return "" if result == "ok" else result.splitlines()[-1]


def back_up(engine: Engine, path: Path) -> None:
    """Write a consistent copy of the whole file while it is in use, complete or not at all.

    Raises:
        JournalUnavailable: the disk is full or cannot be written.
    """
    with engine.connect() as connection:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        draft = copy_to_draft(source, path)
    draft.replace(path)
    sync(path.parent)


def copy_to_draft(source: sqlite3.Connection, path: Path) -> Path:
    """Copy a database, durably, to a hidden file next to `path`; the caller renames it.

    Raises:
        JournalUnavailable: the disk is full or cannot be written.
        sqlite3.DatabaseError: the source is damaged, or not a database.
    """
    draft = path.with_name(f".{path.name}.unfinished")
    draft.unlink(missing_ok=True)
    make_file(draft)
    copy = sqlite3.connect(draft)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.close()
        sync(draft)
    except (sqlite3.Error, OSError) as error:
        copy.close()
        draft.unlink()
        if type(error) is sqlite3.DatabaseError:
            raise
        why = f"{path} cannot be written ({error})"
        raise JournalUnavailable(why, f"free space where {path.parent} is") from error
    return draft


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
