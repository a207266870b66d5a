"""Ends what is left of an attempt whose supervisor is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from flyball.engines.local import cgroup, proc
from flyball.engines.local.claim import Claim

KERNEL_THREADS = 2
"""The parent of threads that are the kernel's own."""
EXEC_TRIES, EXEC_PAUSE_S = 50, 0.01


def signal_supervisor(claim: Claim, number: int) -> bool:
    """Send a signal to the very process that made the claim; False if it is gone."""
    try:
        handle = os.pidfd_open(claim.pid)
    except (OSError, ValueError):
        return False
    try:
        # Asked after the handle was opened, so that it is about the process of the handle.
        if not proc.is_alive(claim.pid, claim.start, claim.boot):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def kill_leftovers(claim: Claim, state: Path, group: cgroup.Group | None) -> int:
    """Kill every process that belongs to the attempt; returns how many there were.

    Its processes are those of the supervisor's session, those whose environment says so, and
    those in its memory group. To be called until it returns 0: a process killed is not gone yet.
    """
    marks = {
        f"FLYBALL_JOB_ID={claim.job}",
        f"FLYBALL_ATTEMPT={claim.attempt}",
        f"FLYBALL_STATE={state}",
    }
    session = _session(claim)
    oldest = claim.start if claim.boot == proc.boot_id() else 0
    grouped = set(group.pids()) if group is not None else set()
    found = 0
    for pid in proc.pids():
        process = proc.stat(pid)
        if process is None or process.gone or process.start < oldest or pid == os.getpid():
            continue
        ours = pid in grouped or (session and process.session == session)
        if ours or marks.issubset(_environment(process)):
            found += 1
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    if group is not None and not found:
        group.remove()
    return found


def _environment(process: proc.Stat) -> list[str]:
    """A process on its way into another program has none for a moment, and no arguments either."""
    found = proc.environment(process.pid)
    for _ in range(EXEC_TRIES):
        if found != [""] or KERNEL_THREADS in (process.pid, process.parent):
            break
        now = proc.stat(process.pid)
        if now is None or now.gone or proc.has_arguments(process.pid):
            break
        time.sleep(EXEC_PAUSE_S)
        found = proc.environment(process.pid)
    return found


def find_holder(path: Path) -> proc.Stat | None:
    """The supervisor that holds a claim, removed or not; None if there is none."""
    for pid in holders(path):
        process = proc.stat(pid)
        # A program that is about to be started has a copy of its supervisor's files.
        if process is not None and not process.gone and process.session == pid:
            return process
    return None


def holders(path: Path) -> list[int]:
    """Processes that have a claim open, also if its file was removed meanwhile."""
    real = os.path.realpath(path)
    paths = (real, f"{real} (deleted)")
    return [pid for pid in proc.pids() if pid != os.getpid() and proc.has_open(pid, paths)]


def _session(claim: Claim) -> int:
    """The number of the supervisor's session, 0 if it is nobody's or somebody else's by now.

    The kernel gives a number away again only when no process has it as its session.
    """
    if claim.boot != proc.boot_id() or not claim.pid:
        return 0
    leader = proc.stat(claim.pid)
    return 0 if leader is not None and leader.start != claim.start else claim.pid
