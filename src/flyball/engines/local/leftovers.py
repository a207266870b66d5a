"""Kills what is left of an attempt whose supervisor is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from flyball.engines.local import cgroup, proc
from flyball.engines.local.claim import Claim

KERNEL_THREADS = 2
"""Pid of kthreadd, the parent of all kernel threads."""
EXEC_TRIES, EXEC_PAUSE_S = 50, 0.01


def signal_supervisor(claim: Claim, number: int) -> bool:
    """Send a signal to the process that made the claim; False if it is gone."""
    try:
        handle = os.pidfd_open(claim.pid)
    except (OSError, ValueError):
        return False
    try:
        # Checked after the handle was opened, so that it is about the same process.
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

    Its processes are those of the supervisor's session, those with its environment variables, and
    those in its memory group. Call it until it returns 0: a killed process is not gone at once.
    """
    marks = {
        f"FLYBALL_JOB_ID={claim.job}",
        f"FLYBALL_ATTEMPT={claim.attempt}",
        f"FLYBALL_STATE={state}",
    }
    session = _session(claim)
    oldest = claim.start if claim.boot == proc.boot_id() else 0
    grouped = set(group.pids()) if group is not None else set()
    count = 0
    for pid in proc.pids():
        process = proc.stat(pid)
        if process is None or process.gone or process.start < oldest or pid == os.getpid():
            continue
        ours = pid in grouped or (session and process.session == session)
        if ours or marks.issubset(_environment(process)):
            count += 1
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    if group is not None and not count:
        group.remove()
    return count


def _environment(process: proc.Stat) -> list[str]:
    """Return the environment of a process; waits while it is in exec, when it reads as empty."""
    variables = proc.environment(process.pid)
    for _ in range(EXEC_TRIES):
        if variables != [""] or KERNEL_THREADS in (process.pid, process.parent):
            break
        now = proc.stat(process.pid)
        if now is None or now.gone or proc.has_arguments(process.pid):
            break
        time.sleep(EXEC_PAUSE_S)
        variables = proc.environment(process.pid)
    return variables


def find_holder(path: Path) -> proc.Stat | None:
    """Return the supervisor that has a claim open, removed or not; None if there is none."""
    for pid in holders(path):
        process = proc.stat(pid)
        # A forked child that has not called exec yet has copies of its supervisor's descriptors.
        if process is not None and not process.gone and process.session == pid:
            return process
    return None


def holders(path: Path) -> list[int]:
    """Return the processes that have a claim open, even if its file was removed."""
    real = os.path.realpath(path)
    paths = (real, f"{real} (deleted)")
    return [pid for pid in proc.pids() if pid != os.getpid() and proc.has_open(pid, paths)]


def _session(claim: Claim) -> int:
    """Return the id of the supervisor's session; 0 if it is gone or was reused.

    The kernel reuses an id only when no process has it as its session.
    """
    if claim.boot != proc.boot_id() or not claim.pid:
        return 0
    leader = proc.stat(claim.pid)
    return 0 if leader is not None and leader.start != claim.start else claim.pid
