"""What a job prints, in a file of bounded size. Standard library only.

The job writes into a pipe and its supervisor moves what comes into the file. For the job a pipe
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
"""What a pipe holds."""
PAUSE_S = 0.02
"""Between two looks into the pipe of a job that prints little but often: at most 50 a second."""


class Log:
    """A file that becomes `.1` when it is full, `.1` becomes `.2`, up to `keep` of them.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, path: str, most_bytes: int, keep: int) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.keep = keep
        self.lost_bytes = 0
        self.error = ""
        self._open()

    def write(self, data: bytes) -> None:
        """Append, or count what could not be kept: a job must not fail for its log."""
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
        # Not to wait for the reader of a named pipe, nor to get a terminal to be controlled by.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY
        self._file = os.open(self.path, flags, 0o600)
        found = os.fstat(self._file)
        self._rotates = stat.S_ISREG(found.st_mode) and self.most_bytes > 0
        self._size = found.st_size

    def _rotate(self) -> None:
        """If it cannot be done the same file goes on: too long is better than lost."""
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
    """Moves what comes out of a pipe into a log, as seldom as the pipe allows."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)
        self.closed = False
        self._from_s = 0.0

    def listens(self, now_s: float) -> bool:
        """Whether to wake up when something comes."""
        return not self.closed and now_s >= self._from_s

    def due_s(self, now_s: float) -> float:
        """When to listen again; infinite if it does already or never will."""
        return self._from_s if not self.closed and now_s < self._from_s else float("inf")

    def move(self, now_s: float) -> None:
        """Move what is there."""
        if self._move_some() < CHUNK // 2:
            self._from_s = now_s + PAUSE_S

    def finish(self) -> None:
        """Move the rest; nobody is left who could write more."""
        if self.into >= 0:
            self.close_into()
        while not self.closed and self._move_some():
            pass
        os.close(self.out)
        self.log.close()

    def close_into(self) -> None:
        """The writing end now belongs to the job alone."""
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
        request: what `request.py` made of the launch; an empty `error_log` = the same log.

    Raises:
        OSError: a file cannot be made.
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
        """Descriptors that the job writes its stdout and stderr into."""
        return self._pumps[0].into, self._pumps[-1].into

    def close_into(self) -> None:
        """The writing ends now belong to the job alone."""
        for pump in self._pumps:
            pump.close_into()

    def listening(self, now_s: float) -> list[Pump]:
        """Those to wake up for when something comes."""
        return [pump for pump in self._pumps if pump.listens(now_s)]

    def due_s(self, now_s: float) -> float:
        """When to listen again; infinite if all do already or never will."""
        return min(pump.due_s(now_s) for pump in self._pumps)

    def complain(self, text: str) -> None:
        """Write a line of ours to the error output."""
        self._pumps[-1].log.write(text.encode())

    def finish(self) -> None:
        """Move the rest; nobody is left who could write more."""
        for pump in self._pumps:
            pump.finish()

    def lost(self) -> str:
        """What could not be kept, in words; empty if all was."""
        logs = [pump.log for pump in self._pumps if pump.log.lost_bytes]
        return "; ".join(f"{log.lost_bytes} bytes of output lost: {log.error}" for log in logs)
