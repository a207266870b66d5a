"""Keeps the worker beside the control plane alive, and hands on what it says.

A worker that ends is started again, after longer and longer pauses while it keeps ending; one that
says nothing for too long is killed. Meanwhile the control plane decides with what it has. Nothing
here is waited for by a decision.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from flyball.core.jobs import JobSpec

SILENCE_S = 120.0
"""A worker says something every few seconds; after this long without a word it hangs."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
WELL_S = 60.0
"""A worker that lived this long was well: the next pause is short again."""
ANSWER_S = 1.0
"""How long a question may wait; whoever asks then goes on without."""
LONGEST_LINE = 4_000_000
GRACE_S = 2.0
"""Between being told to end and being killed: what it knows was written within the last minute."""

logger = logging.getLogger("flyball.control")


class Keeper:
    """Runs one worker after another in a thread of its own.

    Args:
        state: the state folder.
        hear: told of every message, in the keeper's thread.
        command: what is run with `--state FOLDER`; tests put a bad one here.

    Attributes:
        starts: workers so far.
        last_end: how the last one ended.
    """

    def __init__(
        self,
        state: Path,
        hear: Callable[[dict[str, Any]], None],
        command: Sequence[str] = (),
        silence_s: float = SILENCE_S,
        pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._state, self._hear = state, hear
        self._command = [*(command or (sys.executable, "-m", WORKER)), "--state", str(state)]
        self._silence_s, self._pause_s = silence_s, pause_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._heard_s = 0.0
        self._lock = threading.Lock()
        """Held for a moment only: whoever writes to a worker that does not read holds another."""
        self._sending = threading.Lock()
        self._rest = b""
        """Of a line that the worker has the beginning of."""
        self._answers: dict[int, Any] = {}
        self._answered = threading.Condition()
        self._number = 0
        self.starts = 0
        self.last_end = ""
        self._threads = [
            threading.Thread(target=each, name=name, daemon=True)
            for name, each in (("foresight", self._keep), ("foresight-watch", self._watch))
        ]

    def start(self) -> None:
        """Begin."""
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End the worker, gently if it lets us."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            self._close(process)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        for each in self._threads:
            if each.is_alive():
                each.join(10.0)

    @property
    def alive(self) -> bool:
        """Whether a worker runs."""
        with self._lock:
            return self._process is not None and self._process.poll() is None

    def state(self) -> dict[str, Any]:
        """How the worker is, for people."""
        return {"alive": self.alive, "starts": self.starts, "last_end": self.last_end}

    def ask(self, spec: JobSpec, now_us: int) -> list[float] | None:
        """The predicted run time of a job that was not submitted; None if nobody says in time."""
        with self._answered:
            self._number += 1
            number = self._number
            self._answers[number] = None
        line = json.dumps({"ask": number, "spec": spec.as_dict()}).encode() + b"\n"
        sent = self._send(line)
        with self._answered:
            if sent:
                self._answered.wait_for(lambda: self._answers[number] is not None, ANSWER_S)
            found = self._answers.pop(number)
        return [float(each) for each in found] if found else None

    def _send(self, line: bytes) -> bool:
        """Whether a worker got it all; one that does not read is not waited for for long."""
        until_s = time.monotonic() + ANSWER_S
        if not self._sending.acquire(timeout=ANSWER_S):
            return False
        try:
            with self._lock:
                process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return False
            self._rest = write_until(process.stdin.fileno(), self._rest, until_s)
            if self._rest:
                return False
            left = write_until(process.stdin.fileno(), line, until_s)
            self._rest = left if len(left) < len(line) else b""
            return not left
        except OSError:
            return False
        finally:
            self._sending.release()

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        """Let a worker see that there is nothing more to come."""
        with self._sending, contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    # The threads -------------------------------------------------------------------------

    def _keep(self) -> None:
        pause_s = self._pause_s
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self._live()
            except Exception as error:  # a full disk, no more descriptors: it may pass
                self.last_end = f"could not be kept: {error}"
            if self._stopping.is_set():
                return
            pause_s = self._pause_s if time.monotonic() - began_s >= WELL_S else pause_s
            logger.warning("foresight: the worker %s; another in %g s", self.last_end, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2.0 * pause_s, LONGEST_PAUSE_S)

    def _live(self) -> None:
        """One worker from its start to its end."""
        with open(self._state / "foresight.log", "ab") as log:
            try:
                process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
                )
            except OSError as error:
                self.last_end = f"could not be started: {error}"
                return
        assert process.stdin is not None and process.stdout is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._heard_s = time.monotonic()
        with self._sending, self._lock:
            self._process, self._rest = process, b""
            self.starts += 1
        with process.stdout as lines:
            self._listen(lines)
        code = process.wait()
        self._close(process)
        self.last_end = f"ended with {code}"

    def _listen(self, lines: IO[bytes]) -> None:
        while line := lines.readline(LONGEST_LINE):
            self._heard_s = time.monotonic()
            try:
                message = json.loads(line)
                if "answer" in message:
                    with self._answered:
                        if message["answer"] in self._answers:  # else nobody waits any more
                            self._answers[message["answer"]] = message["run"] or ()
                        self._answered.notify_all()
                else:
                    self._hear(message)
            except Exception as error:  # whatever it says, nobody else is to suffer
                logger.warning("foresight: a message was passed over: %r", error)

    def _watch(self) -> None:
        """Kill a worker that hangs."""
        while not self._stopping.wait(min(5.0, self._silence_s / 4)):
            if time.monotonic() - self._heard_s > self._silence_s and self.alive:
                with self._lock:
                    if self._process is not None:
                        self._process.kill()


def write_until(descriptor: int, data: bytes, until_s: float) -> bytes:
    """Write to a pipe that does not block; what there was no room for in time."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    while data:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not room.poll(1e3 * left_s):
            break
        with contextlib.suppress(BlockingIOError):
            data = data[os.write(descriptor, data) :]
    return data


WORKER = "flyball.learn.worker"
