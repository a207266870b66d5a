"""Job numbers: each is assigned once per state folder, even if its journal is replaced.

Logs, checkpoints and claims are named after job numbers. A journal restored from a backup does not
hold the jobs that came after it, but their files still exist: if their numbers were assigned again,
a new job would continue from another job's checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from flyball.core.errors import Unavailable

NAME = "next-job"
NAMED_AFTER_JOBS = ("engine", "logs", "checkpoints", "orders", "claims")
"""Folders of the state folder, and of an engine's, whose entries begin with a job's number."""
WIDTH = 20
"""Bytes of the file, so that every write replaces the whole number."""
_LEADING = re.compile(r"(\d{1,18})(?:\.|$)")


class JobNumbers:
    """Assigns numbers, and keeps the next one in a file next to the journal.

    The file is written before a number is used. It is synced only at the start and at the end: a
    kill does not lose it, and after a power cut the files named after jobs are checked as well.

    Args:
        folder: the state folder.
        first: the first number that the journal has no job for.
        files: another folder with files named after jobs, that of an engine.
    """

    def __init__(self, folder: Path, first: int, files: Path | None = None) -> None:
        folders = {folder, files or folder}
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        self._path = folder / NAME
        self.next = 0
        self._write(max(first, self._stored(), *(highest_in_use(place) + 1 for place in folders)))
        os.fsync(self._file)

    def take(self, count: int) -> int:
        """Reserve consecutive numbers; return the first.

        Raises:
            Unavailable: the file cannot be written.
        """
        first = self.next
        self._write(first + count)
        return first

    def give_back(self, first: int, count: int) -> None:
        """Return unused numbers, if none was reserved after them."""
        if self.next == first + count:
            self._write(first)

    def close(self) -> None:
        """Sync the file and close it. May be called twice."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _stored(self) -> int:
        text = os.pread(self._file, WIDTH, 0).strip()
        return int(text) if text.isdigit() else 0

    def _write(self, number: int) -> None:
        try:
            os.pwrite(self._file, b"%-*d\n" % (WIDTH - 1, number), 0)
        except OSError as error:
            why = f"{self._path} cannot be written ({error.strerror})"
            raise Unavailable(why, "check the disk, then try again") from error
        self.next = number


def highest_in_use(folder: Path) -> int:
    """Return the highest job number that a file of a job is named after, 0 = none."""
    highest = 0
    for name in NAMED_AFTER_JOBS:
        if (folder / name).is_dir():
            for entry in os.listdir(folder / name):
                if (match := _LEADING.match(entry)) is not None:
                    highest = max(highest, int(match[1]))
    return highest


def keep_at_least(folder: Path, first: int) -> None:
    """Ensure that the next control plane assigns no number below `first`."""
    JobNumbers(folder, first).close()
