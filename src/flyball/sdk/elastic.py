"""`flyball.elastic()`: a job learns how many devices it has now, and when it is to save.

    with flyball.elastic() as e:
        for step in range(first, last):
            if e.poll():                    # once a step: a stat of a small file
                use(e.devices)
            train(step)
            if e.should_checkpoint:
                save(step)
                e.saved()

The control plane leaves a file of orders and never waits; the job looks between two steps, where
nothing is half done. Outside Flyball there are never any orders. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Elastic:
    """What this job has been told.

    Attributes:
        devices: the devices (cores, where a job has no others) that it has now.
        should_stop: it was told to end (SIGTERM); save and leave.
    """

    def __init__(self, on_term: bool = True) -> None:
        self._path = os.environ.get("FLYBALL_ORDERS", "")
        self._seen: tuple[int, int] | None = None
        self._resized = self._asked = self._done = 0
        self._on_term = on_term
        self._before: Any = None
        self.devices = _first_devices()
        self.should_stop = False
        self.poll()

    def __enter__(self) -> Self:
        """Hear SIGTERM, where that is possible: it is then no longer the end of the program."""
        if self._on_term and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def poll(self) -> bool:
        """Look for orders, between two steps; whether the number of devices has changed."""
        if not self._path:
            return False
        try:
            found = os.stat(self._path)
        except OSError:
            return False
        seen = (found.st_mtime_ns, found.st_ino)
        if seen == self._seen:
            return False
        self._seen = seen
        return self._read()

    @property
    def should_checkpoint(self) -> bool:
        """Whether a checkpoint was asked for, or the end is near, and none was saved since."""
        return self._asked > self._done or self.should_stop

    @property
    def order(self) -> int:
        """The number of the last checkpoint asked for, 0 = none was."""
        return self._asked

    def saved(self) -> None:
        """A checkpoint was saved."""
        self._done = self._asked

    def _read(self) -> bool:
        try:
            with open(self._path, encoding="utf-8") as file:
                orders = json.load(file)
            resize, save = orders.get("resize", {}), orders.get("checkpoint", {})
            self._asked = max(self._asked, int(save.get("sequence", 0)))
            if int(resize.get("sequence", 0)) <= self._resized:
                return False
            self._resized = int(resize["sequence"])
            before, self.devices = self.devices, int(resize["devices"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return False  # whatever is wrong with it, the job is more important
        return self.devices != before

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.should_stop = True


def elastic(on_term: bool = True) -> Elastic:
    """What this job is told while it runs; to be used as a context.

    Args:
        on_term: within the context SIGTERM sets `should_stop` instead of ending the program. The
            loop must then end by itself, within the job's grace.
    """
    return Elastic(on_term)


def set_threads(devices: int, on_gpu: bool) -> None:
    """Let PyTorch, if it is loaded, use as many threads as there are cores."""
    torch = sys.modules.get("torch")
    if torch is not None and not on_gpu:
        torch.set_num_threads(max(1, devices))


def _first_devices() -> int:
    """As it was started; outside Flyball, the cores that the program may use."""
    stated = os.environ.get("FLYBALL_DEVICES", "")
    if stated.isdigit() and int(stated):
        return int(stated)
    return len(os.sched_getaffinity(0))
