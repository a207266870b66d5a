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
    from typing import Any

SIZE = 4096
HEAD = 1024
AGAIN_S = 1.0
"""After the disk has refused."""


class Claim:
    """A claim as read: `blank` if nothing was written yet, `exit` None until the end was."""

    __slots__ = ("attempt", "blank", "boot", "child", "exit", "job", "pid", "start", "time_us")

    def __init__(
        self, token: tuple[int, int], head: dict[str, Any] | None, end: dict[str, Any] | None
    ) -> None:
        self.job, self.attempt = token
        self.blank = head is None
        values = head or {}
        self.pid = int(values.get("pid", 0))
        self.start = int(values.get("start", 0))
        self.boot = str(values.get("boot", ""))
        self.child = int(values.get("child", 0))
        self.time_us = int(values.get("time_us", 0))
        self.exit = end

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
        file = os.open(name_of(job, attempt), os.O_RDONLY, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        data = os.pread(file, SIZE, 0)
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
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
