"""Drives a control plane: a cycle whenever something happened, and at least once a second."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time

from flyball.control.plane import Plane
from flyball.control.queue_beacon import Beacon
from flyball.core.errors import FlyballError
from flyball.core.protocols import Engine

PERIOD_S = 1.0
"""Maximum time between two cycles."""
PAUSE_S = 0.5
"""Pause after a cycle that failed."""

logger = logging.getLogger("flyball.control")


class Driver:
    """Runs the cycles of a plane in one thread, the only one that uses the engine.

    A cycle that fails is logged, counted and retried: every action is on record first, so a retry
    loses nothing.
    """

    def __init__(self, plane: Plane, engine: Engine) -> None:
        self._plane, self._engine = plane, engine
        self._beacon = Beacon(plane.folder, plane.live_state, plane.columns)
        self._sent_s = 0.0
        self._stopping = False
        self._due = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        engine.listen_to(self._due)
        plane.wake = self.wake
        self._thread = threading.Thread(target=self._run, name="loop", daemon=True)

    def start(self) -> None:
        """Start the cycles and the notifications."""
        self._thread.start()
        self._plane.notices.start()

    def wake(self) -> None:
        """Request a cycle soon. Safe from any thread."""
        os.eventfd_write(self._due, 1)

    def stop(self) -> None:
        """Finish the current cycle and stop. Jobs keep running."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        self._plane.notices.stop()
        self._beacon.close()

    def _run(self) -> None:
        while not self._stopping:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._due)  # this cycle serves all earlier wake-ups
            self._round()

    def _round(self) -> None:
        """Run one cycle; if nothing is left to do, wait until there is.

        Whatever fails, even a state folder that cannot be written for a while, the next cycle
        follows: jobs are accepted all the time.
        """
        try:
            if not self._plane.step():
                self._send_beacon()
                self._engine.wait(PERIOD_S)
            return
        except FlyballError as error:
            logger.warning("a cycle failed: %s", error)
            self._plane.pulse.missed(error)
        except Exception as error:
            logger.exception("a cycle failed")
            self._plane.pulse.missed(error)
        time.sleep(PAUSE_S)

    def _send_beacon(self) -> None:
        """Send the agent the state of the queue, at most once a second."""
        now_s = time.monotonic()
        if now_s - self._sent_s >= PERIOD_S:
            self._sent_s = now_s
            self._beacon.send()
