"""Sends the state of the queue to the monitoring agent, in datagrams that never block."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from flyball.control.decide.job_columns import Table
from flyball.control.jobs.live_state import Book


class Beacon:
    """Sends to `telemetry/report.sock` of a state folder, whether or not an agent listens."""

    def __init__(self, state: Path, book: Book, table: Table) -> None:
        self._path = str(state / "telemetry" / "report.sock")
        self._book, self._table = book, table
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def send(self) -> None:
        """Send the queue length, running jobs, ended jobs, and the highest pending priority."""
        with self._book.lock:
            values = {
                "queue_length": len(self._book.jobs) - len(self._book.busy),
                "running": len(self._book.busy),
                "completed_total": len(self._book.ended),
                "priority_max": self._table.priority_waiting(),
            }
        with contextlib.suppress(OSError):
            self._sender.sendto(json.dumps(values).encode(), self._path)

    def close(self) -> None:
        self._sender.close()
