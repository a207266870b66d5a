"""Job numbers: each is given once in the life of a state folder, whatever becomes of its journal.

Logs, checkpoints and claims are named after job numbers. A journal that was put back from a backup
does not know the jobs that came after it, but their files are still here: were their numbers given
again, a new job would go on from a stranger's checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from flyball.core.errors import Unavailable

NAME = "next-job"
NAMED_AFTER_JOBS = ("engine", "logs", "checkpoints", "orders")
"""Folders of the state folder whose entries begin with a job's number."""
WIDTH = 20
_LEADING = re.compile(r"(\d{1,18})(?:\.|$)")


class JobNumbers:
    """Gives out numbers, and keeps the next one in a file beside the journal.

    The file is written before a number is used. It is synced only at the start and at the end: a
    kill does not lose it, and after a power cut the files named after jobs are looked at as well.

    Args:
        folder: the state folder.
        first: the first number that the journal has no job for.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self._file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o600)
        self._path = folder / NAME
        self.next = 0
        self._write(max(first, self._kept(), highest_in_use(folder) + 1))
        os.fsync(self._file)

    def take(self, count: int) -> int:
        """Reserve so many numbers in a row; the first of them.

        Raises:
            Unavailable: the disk does not take it.
        """
        first = self.next
        self._write(first + count)
        return first

    def give_back(self, first: int, count: int) -> None:
        """Numbers that were not used are given again, if none was taken after them."""
        if self.next == first + count:
            self._write(first)

    def close(self) -> None:
        """Have the disk keep the next number. May be called twice."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _kept(self) -> int:
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
    """The highest job number that a log, checkpoint, claim or order is named after, 0 = none."""
    highest = 0
    for name in NAMED_AFTER_JOBS:
        if (folder / name).is_dir():
            for entry in os.listdir(folder / name):
                if (match := _LEADING.match(entry)) is not None:
                    highest = max(highest, int(match[1]))
    return highest


def keep_at_least(folder: Path, first: int) -> None:
    """See to it that no number below `first` is given by the next control plane."""
    JobNumbers(folder, first).close()
