"""`flyball.elastic()`: tells a job how many devices it has now, and when to save a checkpoint.

    with flyball.elastic() as e:
        for step in range(first, last):
            if e.poll():                    # once a step: a stat of a small file
                use(e.devices)
            train(step)
            if e.should_checkpoint:
                save(step)
                e.saved()

The control plane writes a file of orders and never waits; the job polls it between two steps, when
no step is half done. Outside Flyball there are never any orders. Standard library only.
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
    """The orders that this job has received.

    Attributes:
        devices: number of devices (cores, if the job has no others) that it has now.
        should_stop: whether it was asked to end (SIGTERM); it should save and exit.
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
        """Handle SIGTERM, in the main thread: it then sets `should_stop` and kills no more."""
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
        """Read new orders, between two steps; return whether the number of devices has changed."""
        if not self._path:
            return False
        try:
            stat = os.stat(self._path)
        except OSError:
            return False
        seen = (stat.st_mtime_ns, stat.st_ino)
        if seen == self._seen:
            return False
        self._seen = seen
        return self._read()

    @property
    def should_checkpoint(self) -> bool:
        """Whether a checkpoint was requested, or a stop, and none was saved since."""
        return self._asked > self._done or self.should_stop

    @property
    def order(self) -> int:
        """Number of the last checkpoint that was requested, 0 = none."""
        return self._asked

    def saved(self) -> None:
        """Note that a checkpoint was saved."""
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
            return False  # a broken file of orders must not end the job
        return self.devices != before

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.should_stop = True


def elastic(on_term: bool = True) -> Elastic:
    """Return the orders to this job; to be used as a context manager.

    Args:
        on_term: within the context SIGTERM sets `should_stop` instead of ending the program. The
            loop must then end by itself, within the job's grace.
    """
    return Elastic(on_term)


def set_threads(devices: int, on_gpu: bool) -> None:
    """Let PyTorch, if it is loaded, use as many threads as the job has cores."""
    torch = sys.modules.get("torch")
    if torch is not None and not on_gpu:
        torch.set_num_threads(max(1, devices))


def _first_devices() -> int:
    """Return the devices the job was started with; outside Flyball, the cores it may use."""
    stated = os.environ.get("FLYBALL_DEVICES", "")
    if stated.isdigit() and int(stated):
        return int(stated)
    return len(os.sched_getaffinity(0))
