"""Reads a job's log: the current file and the rotated ones, as one.

`ID.ATTEMPT.out` is the newest part, `.1` the one before, `.2` the one before that. Parts are
kept open while they are read, so a rotation in between neither repeats nor skips a byte.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

CHUNK = 65_536
MOST_PARTS = 100
MOST_TRIES = 10


@dataclass
class LogPart:
    """One open file of a log, with the size it had when it was opened."""

    descriptor: int
    size: int
    key: tuple[int, int]


class LogReader:
    """Reads a log as it was at one moment.

    Attributes:
        size: bytes of all parts together.
    """

    def __init__(self, path: Path) -> None:
        self._parts = _open_all(path)
        self.exists = bool(self._parts)
        self.size = sum(part.size for part in self._parts)

    def close(self) -> None:
        """Close the files."""
        while self._parts:
            os.close(self._parts.pop().descriptor)

    def __del__(self) -> None:
        """Close the files of a response that was never read, as its client had gone."""
        self.close()

    def read(self, start: int, most: int = CHUNK) -> bytes:
        """Return bytes from an offset up to the end of their part; empty at the end of the log."""
        for part in self._parts:
            if start < part.size:
                return os.pread(part.descriptor, min(most, part.size - start), start)
            start -= part.size
        return b""

    def chunks(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to `stop`; closes the log at the end."""
        with closing(self):
            while start < stop and (chunk := self.read(start, min(CHUNK, stop - start))):
                start += len(chunk)
                yield chunk

    def tail_start(self, lines: int) -> int:
        """Return the offset of the last lines. An unterminated last line counts."""
        if lines == 0:
            return self.size
        stop = self.size
        # The newline of the last line does not start another one.
        remaining = lines + (self.size > 0 and self.read(self.size - 1, 1) == b"\n")
        while stop > 0:
            start = max(stop - CHUNK, 0)
            block = b"".join(self._between(start, stop))
            newlines = block.count(b"\n")
            if newlines >= remaining:
                at = len(block)
                for _ in range(remaining):
                    at = block.rindex(b"\n", 0, at)
                return start + at + 1
            remaining -= newlines
            stop = start
        return 0

    def _between(self, start: int, stop: int) -> Iterator[bytes]:
        while start < stop and (chunk := self.read(start, stop - start)):
            start += len(chunk)
            yield chunk


class LogFollower:
    """Reads a log while it grows, from part to part.

    Attributes:
        offset: bytes read or skipped so far, counted from the oldest part.
    """

    def __init__(self, path: Path, tail: int | None = None, start: int = 0) -> None:
        self.path = path
        self.offset = 0
        self._lock = threading.Lock()
        self._closed = False
        self._part: LogPart | None = None
        self._at = 0
        with closing(LogReader(path)) as log:
            self._skip_to = min(start, log.size) if tail is None else log.tail_start(tail)

    def read(self) -> bytes:
        """Return new data, up to a chunk; empty if there is none at present."""
        with self._lock:
            return b"" if self._closed else self._read()

    def _read(self) -> bytes:
        while True:
            if self._part is None and not self._next():
                return b""
            assert self._part is not None
            size = os.fstat(self._part.descriptor).st_size
            if size < self._at:  # truncated in place: start again
                self._at = 0
            if self._skip_to > self.offset:
                step = min(self._skip_to - self.offset, size - self._at)
                self._at += step
                self.offset += step
            if chunk := os.pread(self._part.descriptor, CHUNK, self._at):
                self._at += len(chunk)
                self.offset += len(chunk)
                return chunk
            if not self._next():
                return b""

    def close(self) -> None:
        """Close the file, after any read in progress; from any thread."""
        with self._lock:
            self._closed = True
            self._let_go()

    def _let_go(self) -> None:
        if self._part is not None:
            os.close(self._part.descriptor)
            self._part = None

    def _next(self) -> bool:
        """Open the part after the current one; False if there is none."""
        parts = _open_all(self.path)
        keys = [part.key for part in parts]
        place = keys.index(self._part.key) + 1 if self._part and self._part.key in keys else 0
        for number, part in enumerate(parts):
            if number != place:
                os.close(part.descriptor)
        if place >= len(parts):
            return False
        self._let_go()
        self._part, self._at = parts[place], 0
        return True


def _open_all(path: Path) -> list[LogPart]:
    """Open all parts, oldest first; retries if the log is rotated meanwhile."""
    parts: list[LogPart] = []
    for _ in range(MOST_TRIES):
        before = [_key(name) for name in _names(path)]
        parts = [part for name in _names(path) if (part := _open(name)) is not None]
        if before == [_key(name) for name in _names(path)]:
            break
        for part in parts:
            os.close(part.descriptor)
        parts = []
    return parts


def _names(path: Path) -> list[Path]:
    """Return the paths of the parts, oldest first."""
    count = 0
    while count < MOST_PARTS and os.path.lexists(f"{path}.{count + 1}"):
        count += 1
    return [Path(f"{path}.{number}") for number in range(count, 0, -1)] + [path]


def _open(path: Path) -> LogPart | None:
    """Open one part; None if there is none. Only regular files: a pipe could block."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return None
    return LogPart(descriptor, status.st_size, (status.st_dev, status.st_ino))


def _key(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
