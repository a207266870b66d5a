"""The monitoring agent of `flyball up`: its command line, its restarts and its log."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 120.0
"""Pauses before a restart of the agent; the pause doubles while agents end early."""
HEALTHY_S = 60.0
"""After an agent that ran for this long, the pause starts again at the first one."""
END_S = 5.0
"""Maximum time to wait for an agent that was asked to end."""
LOG_CHECK_S = 60.0
"""Interval at which the size of the log is checked."""
MAX_LOG_BYTES = 1 << 20


def agent_command(
    folder: Path, rates: Sequence[str], host_watts: str, keep_days: float, keep_mib: float
) -> list[str]:
    """Return the agent's command line; check its settings here, where errors are seen.

    Raises:
        BadInput: unknown family, or a value out of range.
    """
    from flyball.monitor.host_power import host_power
    from flyball.monitor.keep import checked_keep
    from flyball.monitor.rates import parse_rates

    parse_rates(rates)
    keep = checked_keep(keep_days, keep_mib)
    command = [sys.executable, "-m", "flyball.monitor.agent", "--state", str(folder)]
    command += [f"--rate={rate}" for rate in rates]
    if host_watts:
        host_power(host_watts)
        command.append(f"--host-watts={host_watts}")
    return [*command, "--keep-days", f"{keep.days:g}", "--keep-mib", f"{keep.mib:g}"]


def next_pause_s(pause_s: float, lived_s: float) -> float:
    """Return the pause after an agent that ran for `lived_s`; `pause_s` preceded it, 0 = none."""
    if lived_s >= HEALTHY_S or not pause_s:
        return FIRST_PAUSE_S
    return min(2 * pause_s, LONGEST_PAUSE_S)


def trim(log: Path, most_bytes: int = MAX_LOG_BYTES) -> None:
    """Rotate a log that other processes append to, if it exceeds a size."""
    try:
        if log.stat().st_size > most_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
    except FileNotFoundError:
        pass
    except OSError:
        os.truncate(log, 0)  # no space for a copy: drop the log rather than fill the disk


class AgentKeeper:
    """Runs the agent, and restarts it when it ends, with growing pauses."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = list(command), log
        self._stopped, self._changing = threading.Event(), threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="agent", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ask the agent to end, and wait for at most `END_S` seconds."""
        self._stopped.set()
        with self._changing:
            if self._running is not None:
                self._running.terminate()
        self._thread.join(END_S)

    def _keep(self) -> None:
        pause_s = 0.0
        while not self._stopped.is_set():
            began_s = time.monotonic()
            with contextlib.suppress(OSError):  # a full disk or too many processes may be temporary
                self._live()
            pause_s = next_pause_s(pause_s, time.monotonic() - began_s)
            self._stopped.wait(pause_s)

    def _live(self) -> None:
        """Run one agent until it ends."""
        process = self._begin()
        while process is not None and not _ended(process):
            trim(self._log)

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """Start the next agent; None if the keeper was stopped."""
        trim(self._log)
        with self._changing, open(self._log, "ab") as file:
            if self._stopped.is_set():
                return None
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
            return self._running


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process ends within `LOG_CHECK_S` seconds.

    Sleeps on a pidfd, since `Popen.wait` with a timeout polls twenty times a second.
    """
    if process.poll() is not None:
        return True
    ends = os.pidfd_open(process.pid)
    try:
        if not select.select([ends], (), (), LOG_CHECK_S)[0]:
            return False
    finally:
        os.close(ends)
    process.wait()
    return True
