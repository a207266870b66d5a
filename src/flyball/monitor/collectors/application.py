"""Reports of jobs and of the control plane: lines of JSON on a datagram socket.

A job's report is `{"job": 17, "attempt": 1, "step": 300, "loss": 0.21}` with any further numbers;
one without `job` is about the whole queue: `{"queue_length": 4, "completed_total": 90}`. Only
numbers with plain names are kept. A sender never blocks: a report that does not fit into the
socket is lost.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import Null, Site

SOCKET = "report.sock"
MOST_BYTES = 8192
MOST_FIELDS = 32
MOST_JOBS = 4096
"""Maximum number of jobs whose last step is remembered; the longest silent is forgotten first."""
MOST_AT_ONCE = 1000
"""Maximum number of datagrams in one read, so that a flood cannot hold up the agent."""
LONGEST_PATH = 100
NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
NOT_VALUES = ("job", "attempt", "time")


class Application:
    """`JOB.loss` and so on, `JOB.steps_per_s`, figures of the queue, and the number of reports."""

    family: ClassVar[str] = "application"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False

    def __init__(self, receiver: socket.socket) -> None:
        self._receiver = receiver
        self._taken = self._rejected = 0
        self._steps: dict[int, tuple[float, float]] = {}
        self.about: Mapping[str, str] = {
            "source": f"reports to telemetry/{SOCKET}",
            "resolution": "the last value of each field since the last reading",
        }

    @classmethod
    def open(cls, site: Site) -> Application | Null:
        if site.state is None:
            return Null("application", "no state folder, so no socket for reports")
        path = site.state / "telemetry" / SOCKET
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(bound(path))

    def collect(self, now: float) -> Sample:
        values: dict[str, float] = {}
        for _ in range(MOST_AT_ONCE):
            try:
                data = self._receiver.recv(MOST_BYTES + 1)
            except BlockingIOError:
                break
            for line in data.splitlines():
                self._take(line, now, values)
        values["reports_total"] = self._taken
        values["rejected_total"] = self._rejected
        return Sample("application", now, values)

    def _take(self, line: bytes, now: float, values: dict[str, float]) -> None:
        report = parsed(line)
        if report is None:
            self._rejected += 1
            return
        self._taken += 1
        job = report.get("job")
        if job is None:
            values.update(_numbers(report))
            return
        numbers = _numbers(report)
        values.update((f"{job}.{name}", value) for name, value in numbers.items())
        if "step" in numbers:
            speed = self._speed(job, float(report.get("time", now)), numbers["step"])
            if speed is not None:
                values[f"{job}.steps_per_s"] = speed

    def _speed(self, job: int, time_s: float, step: float) -> float | None:
        """Return the steps per second since the job's last report; None if not meaningful."""
        last = self._steps.pop(job, None)
        if last is not None and time_s <= last[0]:
            self._steps[job] = last  # several within one read: measured from the first of them
            return None
        if last is None and len(self._steps) >= MOST_JOBS:
            del self._steps[next(iter(self._steps))]
        self._steps[job] = time_s, step
        if last is None or step < last[1]:  # the first report, or it went back to a checkpoint
            return None
        return (step - last[1]) / (time_s - last[0])

    def __del__(self) -> None:
        self._receiver.close()


def bound(path: Path) -> socket.socket:
    """Return a socket that receives at `path`; replaces the one of a previous agent."""
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    path.unlink(missing_ok=True)
    # A path may be too long for a socket address; through the open folder it never is.
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        short = len(os.fsencode(path)) < LONGEST_PATH
        receiver.bind(str(path) if short else f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o600)
    except OSError:
        receiver.close()
        raise
    finally:
        os.close(folder)
    return receiver


def parsed(line: bytes) -> dict[str, Any] | None:
    """Parse a report; None if it is not valid."""
    if len(line) > MOST_BYTES:
        return None
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or len(report) > MOST_FIELDS:
        return None
    job = report.get("job")
    if job is not None and (type(job) is not int or not 0 < job < 2**53):
        return None
    time_s = report.get("time", 0.0)
    if type(time_s) not in (int, float) or not 0 <= time_s < 1e12:
        return None
    return report


def _numbers(report: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in report.items()
        if type(value) in (int, float)
        and name not in NOT_VALUES
        and abs(value) < 1e300
        and not math.isnan(value)
        and NAME.fullmatch(name)
    }
