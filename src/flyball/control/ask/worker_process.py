"""Keeps the worker process alive, passes its messages on, and asks it questions.

A worker that ends is restarted, with exponential back-off while it keeps ending; one without a
heartbeat is killed. Meanwhile the control plane decides with what it has. No decision waits for
anything here.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from flyball.core.jobs import JobSpec

HEARTBEAT_TIMEOUT_S = 120.0
"""A worker sends a message every few seconds; one that is silent for so long hangs."""
FIRST_BACKOFF_S, MAX_BACKOFF_S = 1.0, 300.0
HEALTHY_S = 60.0
"""A worker that lived so long resets the back-off."""
ANSWER_TIMEOUT_S = 1.0
"""Longest wait for an answer; the caller then goes on without."""
MAX_LINE = 4_000_000
GRACE_S = 2.0
"""Time between the request to end and the kill; the worker saves its state once a minute."""

logger = logging.getLogger("flyball.control")


class WorkerProcess:
    """Runs one worker after another, in a thread of its own.

    Args:
        state: the state folder.
        receive: called with every message, in that thread.
        command: started with `--state FOLDER`.

    Attributes:
        starts: number of workers started so far.
        last_end: how the last one ended.
    """

    def __init__(
        self,
        state: Path,
        receive: Callable[[dict[str, Any]], None],
        command: Sequence[str],
        heartbeat_timeout_s: float = HEARTBEAT_TIMEOUT_S,
        backoff_s: float = FIRST_BACKOFF_S,
    ) -> None:
        self._state, self._receive = state, receive
        self._command = [*command, "--state", str(state)]
        self._heartbeat_timeout_s, self._backoff_s = heartbeat_timeout_s, backoff_s
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._heartbeat_s = 0.0
        self._lock = threading.Lock()
        """Held only briefly: a write to a worker that does not read holds `_sending` instead."""
        self._sending = threading.Lock()
        self._unsent = b""
        """The rest of a line whose beginning was sent."""
        self._answers: dict[int, Any] = {}
        self._answered = threading.Condition()
        self._number = 0
        self.starts = 0
        self.last_end = ""
        self._threads = [
            threading.Thread(target=target, name=name, daemon=True)
            for name, target in (("foresight", self._keep), ("foresight-watch", self._watch))
        ]

    def start(self) -> None:
        """Start the threads, and with them the first worker."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ask the worker to end; kill it after a grace period."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            self._close(process)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(10.0)

    @property
    def alive(self) -> bool:
        """Whether a worker runs."""
        with self._lock:
            return self._process is not None and self._process.poll() is None

    def state(self) -> dict[str, Any]:
        """Return the state of the worker, as the API shows it."""
        return {"alive": self.alive, "starts": self.starts, "last_end": self.last_end}

    def ask(self, spec: JobSpec, now_us: int) -> list[float] | None:
        """Return the predicted run time of a job that is not submitted; None after a timeout."""
        with self._answered:
            self._number += 1
            number = self._number
            self._answers[number] = None
        line = json.dumps({"ask": number, "spec": spec.as_dict()}).encode() + b"\n"
        sent = self._send(line)
        with self._answered:
            if sent:
                self._answered.wait_for(lambda: self._answers[number] is not None, ANSWER_TIMEOUT_S)
            answer = self._answers.pop(number)
        return [float(value) for value in answer] if answer else None

    def _send(self, line: bytes) -> bool:
        """Send a line within the timeout; return whether all of it was sent."""
        until_s = time.monotonic() + ANSWER_TIMEOUT_S
        if not self._sending.acquire(timeout=ANSWER_TIMEOUT_S):
            return False
        try:
            with self._lock:
                process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                return False
            self._unsent = write_until(process.stdin.fileno(), self._unsent, until_s)
            if self._unsent:
                return False
            left = write_until(process.stdin.fileno(), line, until_s)
            self._unsent = left if len(left) < len(line) else b""
            return not left
        except OSError:
            return False
        finally:
            self._sending.release()

    def _close(self, process: subprocess.Popen[bytes]) -> None:
        """Close the worker's input, which asks it to end."""
        with self._sending, contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    # The threads -------------------------------------------------------------------------

    def _keep(self) -> None:
        backoff_s = self._backoff_s
        while not self._stopping.is_set():
            began_s = time.monotonic()
            try:
                self._run_once()
            except Exception as error:  # a full disk, no more descriptors: it may pass
                self.last_end = f"could not be kept: {error}"
            if self._stopping.is_set():
                return
            healthy = time.monotonic() - began_s >= HEALTHY_S
            backoff_s = self._backoff_s if healthy else backoff_s
            logger.warning("foresight: the worker %s; another in %g s", self.last_end, backoff_s)
            self._stopping.wait(backoff_s)
            backoff_s = min(2.0 * backoff_s, MAX_BACKOFF_S)

    def _run_once(self) -> None:
        """Run one worker from its start to its end."""
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
        self._heartbeat_s = time.monotonic()
        with self._sending, self._lock:
            self._process, self._unsent = process, b""
            self.starts += 1
        with process.stdout as lines:
            self._read(lines)
        code = process.wait()
        self._close(process)
        self.last_end = f"ended with {code}"

    def _read(self, lines: IO[bytes]) -> None:
        while line := lines.readline(MAX_LINE):
            self._heartbeat_s = time.monotonic()
            try:
                message = json.loads(line)
                if "answer" in message:
                    with self._answered:
                        if message["answer"] in self._answers:  # else the question has timed out
                            self._answers[message["answer"]] = message["run"] or ()
                        self._answered.notify_all()
                else:
                    self._receive(message)
            except Exception as error:  # a bad message must not end the thread
                logger.warning("foresight: a message was passed over: %r", error)

    def _watch(self) -> None:
        """Kill a worker that lost its heartbeat."""
        while not self._stopping.wait(min(5.0, self._heartbeat_timeout_s / 4)):
            if time.monotonic() - self._heartbeat_s > self._heartbeat_timeout_s and self.alive:
                with self._lock:
                    if self._process is not None:
                        self._process.kill()


def write_until(descriptor: int, data: bytes, until_s: float) -> bytes:
    """Write to a non-blocking pipe until a deadline; return what did not fit."""
    room = select.poll()
    room.register(descriptor, select.POLLOUT)
    while data:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or not room.poll(1e3 * left_s):
            break
        with contextlib.suppress(BlockingIOError):
            data = data[os.write(descriptor, data) :]
    return data
