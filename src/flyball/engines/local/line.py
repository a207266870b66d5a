"""The engine's connection to its spawner: starts it, sends without blocking, reads refusals."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

PRESENCE = "spawner.lock"
CLOSE_S = 5.0
"""Time for a spawner to finish the launches that it has read."""


class Line:
    """One spawner process and the socket to it."""

    def __init__(self, folder: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._out = bytearray()
        self._in = b""
        self.broken = False
        with theirs:
            try:
                self._process = _start(folder, theirs)
            except OSError:
                self._socket.close()
                raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def waiting(self) -> bool:
        """Whether there is data that could not be sent yet."""
        return bool(self._out)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, line: bytes) -> bool:
        """Send now, or once the socket has room again; False if the spawner is gone."""
        self._out += line
        return self.flush()

    def note(self, line: bytes) -> None:
        """Queue a line to go out with the next send, or when the engine next waits."""
        self._out += line

    def flush(self) -> bool:
        """Send queued data; False if the spawner is gone."""
        try:
            while self._out and not self.broken:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.broken = True
        return not self.broken

    def refusals(self) -> list[tuple[str, str]]:
        """Return (claim name, reason) of attempts that could not be claimed.

        Sets `broken` if the spawner has ended.
        """
        while not self.broken:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self.broken = not data
            self._in += data
        *lines, self._in = self._in.split(b"\n")
        pairs = (line.decode(errors="replace").partition(" ") for line in lines)
        return [(name, why) for name, _space, why in pairs]

    def kill(self) -> None:
        """Kill a spawner that no longer responds."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Close the connection; the spawner ends when it has served what it received."""
        self._socket.close()
        self.broken = True
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def no_spawner(folder: Path) -> bool:
    """Return whether no spawner is alive, and no supervisor that has yet to claim its attempt."""
    with _presence(folder) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _start(folder: Path, theirs: socket.socket) -> subprocess.Popen[bytes]:
    flags = ["-I", "-S", "-B"] if sys.dont_write_bytecode else ["-I", "-S"]
    command = [sys.executable, *flags, os.path.dirname(__file__), str(folder)]
    with _presence(folder) as lock, open(folder / "errors.log", "ab") as errors:
        # Locked before the fork, so that a spawner that is still starting counts, too.
        fcntl.flock(lock, fcntl.LOCK_SH)
        return subprocess.Popen(
            [*command, str(theirs.fileno()), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            pass_fds=[theirs.fileno(), lock.fileno()],
            start_new_session=True,  # so that Ctrl-C at the terminal does not reach it
        )


def _presence(folder: Path) -> BinaryIO:
    return open(folder / PRESENCE, "ab")
