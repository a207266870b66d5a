"""Keeps a control plane going: a cycle whenever something happened, and once a second anyway."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from flyball.control.beacon import Beacon
from flyball.control.plane import Plane
from flyball.core.errors import FlyballError

PERIOD_S = 1.0
"""The longest time between two cycles."""
PAUSE_S = 0.5
"""After a cycle that failed."""

logger = logging.getLogger("flyball.control")


class Driver:
    """Runs the cycles of a plane in a thread; another waits for the engine.

    A cycle that fails is logged, counted and tried again: everything it does is on record first,
    so nothing is lost by going round once more.
    """

    def __init__(self, plane: Plane, wait: Callable[[float], bool]) -> None:
        """
        Args:
            wait: blocks until the engine has something to report, or so many seconds.
        """
        self._plane, self._wait = plane, wait
        self._due = threading.Event()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name="loop", daemon=True),
            threading.Thread(target=self._listen, name="engine", daemon=True),
        ]
        plane.wake = self._due.set

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the cycle that is under way, and no more. Jobs run on."""
        self._stopping = True
        self._due.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._due.clear()
            try:
                busy = self._plane.step()
            except FlyballError as error:
                self._failed(error)
                logger.warning("a cycle failed: %s", error)
            except Exception as error:
                self._failed(error)
                logger.exception("a cycle failed")
            else:
                if not busy:
                    self._due.wait(PERIOD_S)

    def _failed(self, error: Exception) -> None:
        self._plane.pulse.missed(error)
        time.sleep(PAUSE_S)

    def _listen(self) -> None:
        beacon, told_s = Beacon(self._plane.folder, self._plane.book), 0.0
        while not self._stopping:
            if time.monotonic() - told_s >= PERIOD_S:
                beacon.send()
                told_s = time.monotonic()
            if self._wait(PERIOD_S):
                self._due.set()
                time.sleep(0.001)  # what comes together is handled together
        beacon.close()
