"""`flyball.report(step=..., loss=...)`: a job reports its progress.

Standard library only. It never raises and never blocks: a report is a datagram to a socket in the
state folder, on other machines an HTTP request from a thread, and is lost if no process listens.
At most ten per second are sent; faster ones are merged into the next one, and the last one is sent
when the program ends.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import threading
import time
from typing import Any

SPACING_S = 0.1
MOST_VALUES = 28
MOST_NAME = 32
NOT_PLAIN = re.compile(r"[^a-z0-9_]")
RESERVED = frozenset({"", "job", "attempt", "time"})
LARGEST = 1e300
MOST_PATH = 100
"""Longest path of a socket, in bytes, that every kernel accepts."""

_lock = threading.Lock()
_pending: dict[str, float] = {}
_next_s = 0.0
_flush_is_set = False
_remote: Any = None
"""Sends reports over HTTP; None = not looked for yet, False = not possible."""


def report(step: float | None = None, loss: float | None = None, **values: Any) -> None:
    """Report the progress of this job: numbers under any names.

    Outside a Flyball job this does nothing.
    """
    global _next_s, _flush_is_set
    try:
        job = os.environ.get("FLYBALL_JOB_ID", "")
        state = os.environ.get("FLYBALL_STATE", "")
        if not job:
            return
        numbers = _clean({"step": step, "loss": loss, **values})
        if not state:
            _report_remotely(numbers)
            return
        with _lock:
            _pending.update(numbers)
            now_s = time.monotonic()
            if not _flush_is_set:
                atexit.register(flush)
                _flush_is_set = True
            if now_s < _next_s:
                return
            _next_s = now_s + SPACING_S
            _send(job, state)
    except Exception:  # noqa: S110  # a failed report must not end the job
        pass


def _report_remotely(numbers: dict[str, float]) -> None:
    """Report from a machine that is not the control plane's."""
    global _remote
    with _lock:
        if _remote is None:
            from flyball.sdk.remote_reports import from_environment

            _remote = from_environment() or False
        if _remote:
            _remote.put(dict(list(numbers.items())[:MOST_VALUES]))


def flush() -> None:
    """Send the values that were held back to limit the rate."""
    try:
        with _lock:
            _send(os.environ.get("FLYBALL_JOB_ID", ""), os.environ.get("FLYBALL_STATE", ""))
    except Exception:  # noqa: S110
        pass


def _send(job: str, state: str) -> None:
    if not _pending:
        return
    message = {
        "job": int(job),
        "attempt": int(os.environ.get("FLYBALL_ATTEMPT", "0") or 0),
        "time": time.time(),
        **dict(list(_pending.items())[:MOST_VALUES]),
    }
    _pending.clear()
    data = json.dumps(message, allow_nan=False).encode()
    folder = os.path.join(state, "telemetry")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        path = os.path.join(folder, "report.sock")
        if len(os.fsencode(path)) <= MOST_PATH:
            sender.sendto(data, path)
            return
        # The path of a socket must be short; /proc has a short one for any open folder.
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            sender.sendto(data, f"/proc/self/fd/{descriptor}/report.sock")
        finally:
            os.close(descriptor)


def _clean(values: dict[str, Any]) -> dict[str, float]:
    """Return the finite numbers under plain names (`val/Loss` is `val_loss`), and nothing else."""
    clean: dict[str, float] = {}
    for name, value in values.items():
        plain = NOT_PLAIN.sub("_", name.lower())[:MOST_NAME]
        if value is None or isinstance(value, str) or plain in RESERVED or not plain[0].isalpha():
            continue
        number = int(value) if isinstance(value, int) else float(value)
        if abs(number) < LARGEST:  # also false for NaN
            clean[plain] = number
    return clean
