"""Notifies one target of a job's end: posts to a URL, or runs a command. Takes a bounded time."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from flyball import __version__
from flyball.control.notify import exec_command
from flyball.control.notify.target import Target

TIMEOUT_S = 30.0
"""Default limit of one notification."""
POLL_S = 0.2
"""Interval at which a running command and the stop of the control plane are checked."""
EXEC = str(Path(exec_command.__file__).resolve())


class Delivery(NamedTuple):
    """Holds the outcome of one notification, with a message for the owner of the job."""

    ok: bool
    message: str


class Abandoned(Exception):
    """Raised when the control plane stops: the command was killed, its outcome is unknown."""


def post(url: str, payload: bytes, timeout_s: float) -> Delivery:
    """Post JSON to a URL. No proxy, no redirect; only the status of the response is used.

    Only the payload is sent: no token, no cookie.
    """
    parts = urlsplit(url)
    https = parts.scheme == "https"
    make = http.client.HTTPSConnection if https else http.client.HTTPConnection
    expired = threading.Event()
    try:
        connection = make(parts.hostname or "", parts.port, timeout=timeout_s)
    except (http.client.HTTPException, ValueError) as error:
        return Delivery(False, f"not a URL: {error}")

    def abort() -> None:
        """Abort a connection on which each step meets the timeout, but not all together."""
        expired.set()
        if connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout_s, abort)
    timer.daemon = True
    timer.start()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"flyball/{__version__}",
        "Connection": "close",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, payload, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        if expired.is_set() or isinstance(error, TimeoutError):
            return Delivery(False, f"no answer within {timeout_s:g} s")
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Delivery(False, f"could not be posted: {reason}"[:200])
    finally:
        timer.cancel()
        connection.close()
    if expired.is_set():  # it was aborted within the headers, after the status
        return Delivery(False, f"no answer within {timeout_s:g} s")
    return Delivery(200 <= status < 300, f"HTTP {status}")


def run(
    command: Target,
    cwd: str,
    env: Mapping[str, str],
    payload: bytes,
    abandon: threading.Event,
    timeout_s: float,
) -> Delivery:
    """Run a command with the payload on its standard input. Its output is discarded.

    Args:
        abandon: set when the control plane stops and waits no longer.

    Raises:
        Abandoned: it was set; the command's process group was killed.
    """
    launcher = [sys.executable, "-I", "-S", EXEC, str(os.getpid()), *command]
    with tempfile.TemporaryFile() as stdin:
        stdin.write(payload)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                launcher, cwd=cwd, env=dict(env), stdin=stdin, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return Delivery(False, f"could not start: {reason}")
    end_s = time.monotonic() + timeout_s
    while True:
        try:
            return _result(process.wait(POLL_S))
        except subprocess.TimeoutExpired:
            if abandon.is_set() or time.monotonic() >= end_s:
                os.killpg(
                    process.pid, signal.SIGKILL
                )  # not reaped yet, so the id cannot have been reused
                process.wait()
                if abandon.is_set():
                    raise Abandoned from None
                return Delivery(False, f"killed: not done within {timeout_s:g} s")


def _result(code: int) -> Delivery:
    if code < 0:
        names = {int(number): number.name for number in signal.Signals}
        return Delivery(False, f"ended by {names.get(-code, f'signal {-code}')}")
    if code == exec_command.NOT_STARTED:
        return Delivery(False, "exit code 127: the command, or one that it runs, was not found")
    return Delivery(code == 0, f"exit code {code}")
