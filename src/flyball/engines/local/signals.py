"""What a supervisor is told by signals, and how it hears and sends them. Standard library only."""

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
"""The machine goes down: as PREEMPT, but no end is recorded, so that the attempt counts as lost
and the job may run again."""
ORDERS = signal.SIGWINCH
"""There are new orders (`steer_file.py`)."""


def hear() -> int:
    """Let signals wake and do nothing else, for good; returns the pipe in which they are read.

    Signals come to whoever reads a claim, so this must be done before one is written.
    """
    wake, tell = os.pipe()
    for each in (wake, tell):
        os.set_blocking(each, False)
    for each in (signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)
    for each in (CANCEL, PREEMPT, DOWN, ORDERS, signal.SIGCHLD):
        signal.signal(each, _nothing)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return wake


def send(pid: int, number: int) -> None:
    """It may be gone already, or run as another user now; there is nothing more to be done."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def warning_s(request: dict[str, Any], began_s: float) -> float:
    """When a job that began then is told that its time limit is near; infinite = never."""
    if not request["signal_before_s"] or not request["checkpoint_signal"]:
        return float("inf")
    ahead_s: float = request["limit_s"] - request["signal_before_s"]
    return began_s + max(0.0, ahead_s)


def warn(pid: int, request: dict[str, Any]) -> None:
    """Announce the time limit to a job: to its process, or to the programs that one started.

    A script that has started nothing just now is told itself.
    """
    children = proc.children(pid) if request["signal_children"] else []
    for each in children or [pid]:
        send(each, request["checkpoint_signal"])


def _nothing(_number: int, _frame: object) -> None:
    """For signals that only wake."""
