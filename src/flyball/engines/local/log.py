"""Writes a job's output to log files of bounded size. Standard library only.

The job writes into a pipe and its supervisor moves the data into the file. For the job a pipe
costs no more than a file; and a log can be cut at an exact size without losing a line, a full disk
loses output but does not fail the job, and several tasks may name the same file.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK = 65536
"""Capacity of a pipe in bytes."""
PAUSE_S = 0.02
"""Pause after a small read, so that a job that prints little but often costs 50 reads a second."""


class Log:
    """A log file that is renamed to `.1` when it is full, `.1` to `.2`, up to `keep` of them.

    Raises:
        OSError: the file cannot be created.
    """

    def __init__(self, path: str, most_bytes: int, keep: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.keep = keep
        self.lost_bytes = 0
        self.error = ""
        self._open()

    def write(self, data: bytes) -> None:
        """Append; data that cannot be written is counted, as a job must not fail for its log."""
        while data:
            room = len(data)
            if self._rotates:
                room = self.most_bytes - self._size
                if room <= 0:
                    room = min(self.most_bytes, len(data))
                    self._rotate()
            try:
                done = os.write(self._file, data[:room])
            except OSError as error:
                self.lost_bytes += len(data)
                self.error = error.strerror or str(error)
                return
            self._size += done
            data = data[done:]

    def close(self) -> None:
        os.close(self._file)

    def _open(self) -> None:
        # Never block on a named pipe without a reader, nor acquire a controlling terminal.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
        self._file = os.open(self.path, flags, 0o600)
        status = os.fstat(self._file)
        self._rotates = stat.S_ISREG(status.st_mode) and self.most_bytes > 0
        self._size = status.st_size

    def _rotate(self) -> None:
        """Rotate the files; on failure keep writing to the same one: too long beats lost."""
        names = [self.path] + [f"{self.path}.{i}" for i in range(1, self.keep + 1)]
        old = self._file
        try:
            for i in range(self.keep, 0, -1):
                if os.path.exists(names[i - 1]):
                    os.replace(names[i - 1], names[i])
            if not self.keep:
                os.unlink(self.path)
            self._open()
            os.close(old)
        except OSError:
            self._file = old
            self._size = 0


class Pump:
    """Moves data from a pipe into a log, in as few reads as the pipe's capacity allows."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)
        self.closed = False
        self._from_s = 0.0

    def listens(self, now_s: float) -> bool:
        """Return whether to wake up for new data."""
        return not self.closed and now_s >= self._from_s

    def due_s(self, now_s: float) -> float:
        """Return when to listen again; infinite if it listens already or never will."""
        return self._from_s if not self.closed and now_s < self._from_s else float("inf")

    def move(self, now_s: float) -> None:
        """Move the data that is available."""
        if self._move_some() < CHUNK // 2:
            self._from_s = now_s + PAUSE_S

    def finish(self) -> None:
        """Move the rest, once no process can write more, and close everything."""
        if self.into >= 0:
            self.close_into()
        while not self.closed and self._move_some():
            pass
        os.close(self.out)
        self.log.close()

    def close_into(self) -> None:
        """Close our copy of the writing end: only the job keeps it."""
        os.close(self.into)
        self.into = -1

    def _move_some(self) -> int:
        try:
            data = os.read(self.out, CHUNK)
        except BlockingIOError:
            return 0
        self.closed = not data
        self.log.write(data)
        return len(data)


class Outputs:
    """The logs of a job's stdout and stderr: one for both, or one for each.

    Args:
        request: the launch request, from `request.py`; an empty `error_log` = the same log.

    Raises:
        OSError: a file cannot be created.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        limits = request["log_bytes"], request["log_keep"]
        self._pumps = [Pump(Log(request["log"], *limits))]
        if request["error_log"]:
            try:
                self._pumps.append(Pump(Log(request["error_log"], *limits)))
            except OSError:
                self.finish()
                raise

    @property
    def into(self) -> tuple[int, int]:
        """Descriptors that the job writes its stdout and stderr to."""
        return self._pumps[0].into, self._pumps[-1].into

    def close_into(self) -> None:
        """Close our copies of the writing ends: only the job keeps them."""
        for pump in self._pumps:
            pump.close_into()

    def listening(self, now_s: float) -> list[Pump]:
        """Return the pumps that wait for new data."""
        return [pump for pump in self._pumps if pump.listens(now_s)]

    def due_s(self, now_s: float) -> float:
        """Return when to listen again; infinite if all listen already or never will."""
        return min(pump.due_s(now_s) for pump in self._pumps)

    def complain(self, text: str) -> None:
        """Write a message of the supervisor to the error log."""
        self._pumps[-1].log.write(text.encode())

    def finish(self) -> None:
        """Move the rest, once no process can write more, and close everything."""
        for pump in self._pumps:
            pump.finish()

    def lost(self) -> str:
        """Return a message about output that could not be written; empty if all was."""
        logs = [pump.log for pump in self._pumps if pump.log.lost_bytes]
        return "; ".join(f"{log.lost_bytes} bytes of output lost: {log.error}" for log in logs)
