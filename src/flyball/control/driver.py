"""Keeps a control plane going: a cycle whenever something happened, and once a second anyway."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from typing import Protocol

from flyball.control.plane import Plane
from flyball.control.queue_beacon import Beacon
from flyball.core.errors import FlyballError

PERIOD_S = 1.0
"""The longest time between two cycles."""
PAUSE_S = 0.5
"""After a cycle that failed."""

logger = logging.getLogger("flyball.control")


class Waits(Protocol):
    """An engine that can be waited for."""

    def listen_to(self, descriptor: int) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...


class Driver:
    """Runs the cycles of a plane in a thread of its own, the only one that uses the engine.

    A cycle that fails is logged, counted and tried again: everything it does is on record first,
    so nothing is lost by going round once more.
    """

    def __init__(self, plane: Plane, engine: Waits) -> None:
        self._plane, self._engine = plane, engine
        self._beacon = Beacon(plane.folder, plane.book, plane.table)
        self._told_s = 0.0
        self._stopping = False
        self._due = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        engine.listen_to(self._due)
        plane.wake = self.wake
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._plane.notices.start()

    def wake(self) -> None:
        """Have a cycle soon. From any thread."""
        os.eventfd_write(self._due, 1)

    def stop(self) -> None:
        """Finish the cycle that is under way, and no more. Jobs run on."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._plane.notices.stop()
        self._beacon.close()

    def _run(self) -> None:
        while not self._stopping:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._due)  # whoever woke us before is served by this cycle
            self._round()

    def _round(self) -> None:
        """One cycle; and if there is nothing more to do, wait until there is.

        Whatever fails, a folder that cannot be written to for a while as well, the next round
        comes: jobs are accepted all the time.
        """
        try:
            if not self._plane.step():
                self._tell()
                self._engine.wait(PERIOD_S)
            return
        except FlyballError as error:
            logger.warning("a cycle failed: %s", error)
            self._plane.pulse.missed(error)
        except Exception as error:
            logger.exception("a cycle failed")
            self._plane.pulse.missed(error)
        time.sleep(PAUSE_S)

    def _tell(self) -> None:
        """Let the agent know how the queue is, at most once a second."""
        now_s = time.monotonic()
        if now_s - self._told_s >= PERIOD_S:
            self._told_s = now_s
            self._beacon.send()
