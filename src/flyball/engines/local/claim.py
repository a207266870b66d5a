"""The claim of an attempt: a file of fixed size that is created once and later holds its end.

`docs/concept/control.md` describes its content. Standard library only: supervisors use it too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

SIZE = 4096
HEAD = 1024
"""Bytes of the first part of a claim; the end of the attempt follows."""
AGAIN_S = 1.0
"""Retry interval after a failed write."""

MOST_PID = 2**22
HEAD_LIMITS = {"pid": MOST_PID, "start": 2**63, "child": MOST_PID, "time_us": 2**63}
END_LIMITS = {"exit_code": 255, "signal": 64, "time_us": 2**63}
"""Integers in the two parts of a claim, and their largest values."""


class Claim:
    """A claim as read: `blank` if nothing was written yet, `exit` None until the end was.

    A part that holds anything a supervisor would not write counts as not written.
    """

    __slots__ = ("attempt", "blank", "boot", "child", "exit", "job", "pid", "start", "time_us")

    def __init__(
        self, token: tuple[int, int], head: dict[str, Any] | None, end: dict[str, Any] | None
    ) -> None:
        self.job, self.attempt = token
        self.blank = head is None or not _fits(head, HEAD_LIMITS)
        values = {} if head is None or self.blank else head
        self.pid = values.get("pid", 0)
        self.start = values.get("start", 0)
        self.boot = str(values.get("boot", ""))
        self.child = values.get("child", 0)
        self.time_us = values.get("time_us", 0)
        self.exit = end if end is not None and _fits(end, END_LIMITS, END_LIMITS) else None

    @property
    def void(self) -> bool:
        """Whether the engine claimed the attempt so that it can never start."""
        return not self.blank and self.pid == 0


def name_of(job: int, attempt: int) -> str:
    """Return the file name of a claim."""
    return f"{job}.{attempt}"


def token_of(name: str) -> tuple[int, int] | None:
    """Return (job, attempt) of a claim's file name; None for any other file."""
    job, dot, attempt = name.partition(".")
    if dot and job.isdecimal() and attempt.isdecimal():
        return int(job), int(attempt)
    return None


def make(folder: int, head: dict[str, Any]) -> int:
    """Claim an attempt in the folder (a descriptor) and keep the file open for writing.

    If anything fails after the file was created, it is removed again: a claim that cannot hold
    its end is worse than none. Not durable yet: see `make_durable`.

    Raises:
        FileExistsError: the attempt was claimed before.
        OSError: the disk is full, or the folder is gone.
    """
    name = name_of(head["job"], head["attempt"])
    file = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, dir_fd=folder)
    try:
        if os.write(file, _padded(head, HEAD) + _padded(None, SIZE - HEAD)) != SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.unlink(name, dir_fd=folder)
        os.close(file)
        raise
    return file


def make_durable(folder: int, head: dict[str, Any], file: int) -> None:
    """Sync a claim, with the space for its end, to the disk; remove it if that fails.

    Raises:
        OSError: the disk is full.
    """
    try:
        os.fsync(file)
        os.fsync(folder)
    except OSError:
        take_back(folder, head, file)
        raise


def take_back(folder: int, head: dict[str, Any], file: int) -> None:
    """Remove a claim under which nothing has run."""
    os.unlink(name_of(head["job"], head["attempt"]), dir_fd=folder)
    os.close(file)


def restore(folder: int, head: dict[str, Any], file: int) -> int:
    """Rewrite a claim that was removed or damaged while its holder lives; returns its descriptor.

    Without a claim, nothing counts as running. If it cannot be written, or another claim has
    taken its place, the old descriptor is returned.
    """
    try:
        if os.fstat(file).st_nlink:
            write_head(file, head)
            return file
        restored = make(folder, head)
        make_durable(folder, head, restored)
    except OSError:
        return file
    os.close(file)
    return restored


def write_head(file: int, head: dict[str, Any]) -> None:
    """Update the holder of the claim. Not synced: after a crash of the machine there is none."""
    os.pwrite(file, _padded(head, HEAD), 0)


def write_exit(file: int, end: dict[str, Any]) -> None:
    """Record the end, durably, in the space reserved for it.

    A copy-on-write file system may still have no space. The write is retried for ever: the
    supervisor that knows the end lives as long.
    """
    room = SIZE - HEAD
    while len(json.dumps(end)) >= room:  # half a message is better than no record
        end = {**end, "message": end["message"][: len(end["message"]) // 2]}
    while True:
        try:
            os.pwrite(file, _padded(end, room), HEAD)
            break
        except OSError:
            time.sleep(AGAIN_S)
    with contextlib.suppress(OSError):  # readers see it already; nothing more can be done
        os.fdatasync(file)


def read(folder: int, job: int, attempt: int) -> Claim | None:
    """Return the claim as it is now; None if there is none.

    A part that is being written may be torn and counts as not written yet. To learn whether it
    ever will be, check that the supervisor is alive.
    """
    try:
        # Non-blocking, as this name may be a pipe or another kind of file.
        file = os.open(name_of(job, attempt), os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return Claim((job, attempt), None, None)
    try:
        data = os.pread(file, SIZE, 0)
    except OSError:
        data = b""
    finally:
        os.close(file)
    return Claim((job, attempt), _parsed(data[:HEAD]), _parsed(data[HEAD:]))


def _padded(record: dict[str, Any] | None, room: int) -> bytes:
    text = b"" if record is None else json.dumps(record).encode()
    assert len(text) < room
    return text.ljust(room - 1) + b"\n"


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _fits(record: dict[str, Any], limits: dict[str, int], needed: Iterable[str] = ()) -> bool:
    """Return whether the numbers of a record are integers within limits, and none is missing."""
    for name, most in limits.items():
        value = record.get(name, None if name in needed else 0)
        if type(value) is not int or not 0 <= value <= most:
            return False
    return isinstance(record.get("message", ""), str) and isinstance(record.get("why", ""), str)
