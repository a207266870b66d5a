"""The signals of a supervisor: their meanings, receiving and sending. Standard library only."""

from __future__ import annotations

import os
import signal

from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CANCEL = signal.SIGUSR2
PREEMPT = signal.SIGUSR1
DOWN = signal.SIGTERM
"""The machine shuts down: like PREEMPT, but no end is recorded, so that the attempt counts as lost
and the job may run again."""
ORDERS = signal.SIGWINCH
"""There are new orders (`steer_file.py`)."""


def hear() -> int:
    """Make signals only wake the process, for good; returns the pipe from which they are read.

    Anyone who reads a claim may send signals, so this must be done before one is written.
    """
    wake, tell = os.pipe()
    for descriptor in (wake, tell):
        os.set_blocking(descriptor, False)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for number in (CANCEL, PREEMPT, DOWN, ORDERS, signal.SIGCHLD):
        signal.signal(number, _nothing)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def send(pid: int, number: int) -> None:
    """Send a signal; ignores a process that is gone, or runs as another user now."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def warning_s(request: dict[str, Any], began_s: float) -> float:
    """Return when to warn a job that its time limit is near; infinite = never."""
    if not request["signal_before_s"] or not request["checkpoint_signal"]:
        return float("inf")
    ahead_s: float = request["limit_s"] - request["signal_before_s"]
    return began_s + max(0.0, ahead_s)


def warn(pid: int, request: dict[str, Any]) -> None:
    """Warn a job of its time limit: its process, or the children of that process.

    A script without children at this moment is signalled itself.
    """
    children = proc.children(pid) if request["signal_children"] else []
    for target in children or [pid]:
        send(target, request["checkpoint_signal"])


def _nothing(_number: int, _frame: object) -> None:
    """Handle a signal that only wakes the process."""
