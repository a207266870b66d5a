"""Tracks the processes that a test starts, and ends them with it whatever fails.

A child started by `subprocess` is tracked itself. What those children start in turn (spawners,
supervisors, agents, jobs) is recognised by a mark in its environment, or by the state folder that
the engine writes into the environment of every job. Only such processes are ever signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flyball.engines.local import proc

MARK = "FLYBALL_TEST_MARK"
SESSION = uuid.uuid4().hex
"""Tells the processes of this test session (with pytest-xdist: of this worker) from all others."""
END_S = 60.0
"""How long processes that are told to end by their own means may take on a busy machine."""
STAYS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Python starts these on first use and ends them with the interpreter."""


class Processes:
    """What was started while `tracked` was active."""

    def __init__(self, mark: str, folder: Path | None) -> None:
        self.mark = mark
        self._state = f"FLYBALL_STATE={folder}" if folder is not None else None
        self._children: list[subprocess.Popen[Any]] = []

    @contextlib.contextmanager
    def tracked(self) -> Iterator[None]:
        """Mark and remember everything that is started meanwhile."""
        begin = subprocess.Popen.__init__

        def init(child: subprocess.Popen[Any], *args: Any, **options: Any) -> None:
            begin(child, *args, **options)
            self._children.append(child)

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(MARK, self.mark)
            patch.setattr(subprocess.Popen, "__init__", init)
            yield

    def left(self) -> dict[int, str]:
        """Processes that still run, with their command lines."""
        running = {child.pid: "" for child in self._children if child.poll() is None}
        running |= {pid: "" for pid in proc.pids() if pid != os.getpid() and self._is_ours(pid)}
        lines = {pid: _command_line(pid) for pid in running}
        return {pid: line for pid, line in lines.items() if not _stays(line) and not _gone(pid)}

    def wait(self, limit_s: float = END_S) -> dict[int, str]:
        """Wait until none is left; returns those that are left when the time is up."""
        until_s = time.monotonic() + limit_s
        while (left := self.left()) and time.monotonic() < until_s:
            time.sleep(0.02)
        return left

    def end(self) -> None:
        """Kill what is left, by id, until nothing is, and close the pipes of our children."""
        until_s = time.monotonic() + END_S
        while (left := self.left()) and time.monotonic() < until_s:
            for pid in left:
                self._kill(pid)
            time.sleep(0.01)
        for child in self._children:
            if child.poll() is None:
                continue
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # nobody reads what was not sent
                        stream.close()

    def _is_ours(self, pid: int) -> bool:
        for entry in proc.environment(pid):
            if entry.startswith(f"{MARK}={self.mark}"):
                return True
            if self._state is not None and (entry + "/").startswith(f"{self._state}/"):
                return True
        return False

    def _kill(self, pid: int) -> None:
        """Kill the very process that was found: its number may be another's by now."""
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        try:
            if self._is_ours(pid) or any(child.pid == pid for child in self._children):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)


def describe(left: dict[int, str]) -> str:
    """One line for each process."""
    return "\n".join(f"  {pid}: {line or '(no command line)'}" for pid, line in left.items())


def _gone(pid: int) -> bool:
    stat = proc.stat(pid)
    return stat is None or stat.gone


def _stays(line: str) -> bool:
    return any(word in line for word in STAYS)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200].strip()
    except OSError:
        return ""
