"""The claim of an attempt: a file of fixed size that is made once and holds its end.

`docs/concept/control.md` says what is in it. Standard library only: supervisors use it too.
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
AGAIN_S = 1.0
"""After the disk has refused."""


MOST_PID = 2**22
HEAD_LIMITS = {"pid": MOST_PID, "start": 2**63, "child": MOST_PID, "time_us": 2**63}
END_LIMITS = {"exit_code": 255, "signal": 64, "time_us": 2**63}
"""Whole numbers of the two parts, and how large they may be."""


class Claim:
    """A claim as read: `blank` if nothing was written yet, `exit` None until the end was.

    A part that holds anything else than its supervisor would write counts as not written.
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
        """Whether it was made so that the attempt can never begin."""
        return not self.blank and self.pid == 0


def name_of(job: int, attempt: int) -> str:
    """The claim's file name."""
    return f"{job}.{attempt}"


def token_of(name: str) -> tuple[int, int] | None:
    """(job, attempt) of a claim's file name; None for any other file."""
    job, dot, attempt = name.partition(".")
    if dot and job.isdecimal() and attempt.isdecimal():
        return int(job), int(attempt)
    return None


def make(folder: int, head: dict[str, Any]) -> int:
    """Claim an attempt in the folder (a descriptor) and keep the file open for writing.

    Whatever goes wrong after the file was made, it is removed again: a claim that cannot hold its
    end is worse than none. Not on the disk yet: see `make_durable`.

    Raises:
        FileExistsError: it was claimed before.
        OSError: no room, or no such folder any more.
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
    """Have the disk keep a claim that was made, and room for its end; if it cannot, remove it.

    Raises:
        OSError: no room.
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
    """Write a claim again that somebody removed or spoilt while its holder lives; returns its file.

    Whoever finds no claim takes it that nothing runs. Where it cannot be written, or another claim
    stands in its place, the file stays what it was.
    """
    try:
        if os.fstat(file).st_nlink:
            write_head(file, head)
            return file
        again = make(folder, head)
        make_durable(folder, head, again)
    except OSError:
        return file
    os.close(file)
    return again


def write_head(file: int, head: dict[str, Any]) -> None:
    """Say anew who holds the claim. Not synced: after a crash of the machine nobody does."""
    os.pwrite(file, _padded(head, HEAD), 0)


def write_exit(file: int, end: dict[str, Any]) -> None:
    """Record the end in the room made for it, durably.

    A file system that copies what it changes may have no room even so. It is asked again and
    again: whoever knows the end lives as long.
    """
    room = SIZE - HEAD
    while len(json.dumps(end)) >= room:  # half of a message is better than no record
        end = {**end, "message": end["message"][: len(end["message"]) // 2]}
    while True:
        try:
            os.pwrite(file, _padded(end, room), HEAD)
            break
        except OSError:
            time.sleep(AGAIN_S)
    with contextlib.suppress(OSError):  # whoever asks can read it; there is no more to be done
        os.fdatasync(file)


def read(folder: int, job: int, attempt: int) -> Claim | None:
    """The claim as it stands, None if there is none.

    A part that is being written at this moment may be torn; it counts as not written yet, and
    whoever cares whether it ever will be asks if the supervisor lives.
    """
    try:
        # Without waiting: what stands here may be no file at all.
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
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fits(record: dict[str, Any], limits: dict[str, int], needed: Iterable[str] = ()) -> bool:
    """Whether the numbers of a record are whole numbers of a possible size, and all are there."""
    for name, most in limits.items():
        value = record.get(name, None if name in needed else 0)
        if type(value) is not int or not 0 <= value <= most:
            return False
    return isinstance(record.get("message", ""), str) and isinstance(record.get("why", ""), str)
