"""Tells the monitoring agent how the queue is: one datagram now and then, never in the way."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

from flyball.control.book import Book
from flyball.core.jobs import JobState


class Beacon:
    """Sends to `telemetry/report.sock` of a state folder; nobody need be there."""

    def __init__(self, state: Path, book: Book) -> None:
        self._path = str(state / "telemetry" / "report.sock")
        self._book = book
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)

    def send(self) -> None:
        """Queue length, running jobs, jobs that ended, and the highest priority that waits."""
        with self._book.lock:
            jobs = list(self._book.jobs.values())
            ended = len(self._book.ended)
        waiting = [job.spec.priority for job in jobs if job.state == JobState.PENDING]
        told = {
            "queue_length": len(waiting),
            "running": len(jobs) - len(waiting),
            "completed_total": ended,
            "priority_max": max(waiting, default=0.0),
        }
        with contextlib.suppress(OSError):
            self._sender.sendto(json.dumps(told).encode(), self._path)

    def close(self) -> None:
        self._sender.close()
