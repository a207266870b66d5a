"""Sends the state of the queue to the monitoring agent, in datagrams that never block."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from flyball.control.decide.job_columns import JobColumns
from flyball.control.jobs.live_state import LiveState


class Beacon:
    """Sends to `telemetry/report.sock` of a state folder, whether or not an agent listens."""

    def __init__(self, state: Path, live_state: LiveState, columns: JobColumns) -> None:
        self._path = str(state / "telemetry" / "report.sock")
        self._live_state, self._columns = live_state, columns
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def send(self) -> None:
        """Send the queue length, running jobs, ended jobs, and the highest pending priority."""
        with self._live_state.lock:
            values = {
                "queue_length": len(self._live_state.jobs) - len(self._live_state.busy),
                "running": len(self._live_state.busy),
                "completed_total": len(self._live_state.ended),
                "priority_max": self._columns.priority_waiting(),
            }
        with contextlib.suppress(OSError):
            self._sender.sendto(json.dumps(values).encode(), self._path)

    def close(self) -> None:
        self._sender.close()
