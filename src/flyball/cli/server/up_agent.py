"""The monitoring agent of `flyball up`: its settings, its life and its log."""

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
"""Between the end of an agent and the start of the next; it doubles while they end early."""
LIVED_S = 60.0
"""An agent that lived for so long was well: the next one starts after the first pause again."""
END_S = 5.0
"""How long an agent that is told to end is waited for; one that takes longer ends all the same."""
LOG_LOOK_S = 60.0
MOST_LOG_BYTES = 1 << 20


def agent_command(
    folder: Path, rates: Sequence[str], host_watts: str, keep_days: float, keep_mib: float
) -> list[str]:
    """The agent's command line, its settings checked here: nobody would see it refuse them.

    Raises:
        BadInput: no such family, or a value out of range.
    """
    from flyball.monitor.host_power import host_power
    from flyball.monitor.keep import checked_keep
    from flyball.monitor.rates import parse_rates

    parse_rates(rates)
    keep = checked_keep(keep_days, keep_mib)
    command = [sys.executable, "-m", "flyball.monitor.agent", "--state", str(folder)]
    command += [f"--rate={each}" for each in rates]
    if host_watts:
        host_power(host_watts)
        command.append(f"--host-watts={host_watts}")
    return [*command, "--keep-days", f"{keep.days:g}", "--keep-mib", f"{keep.mib:g}"]


def next_pause_s(pause_s: float, lived_s: float) -> float:
    """The pause after an agent that lived for so long; `pause_s` came before it, 0 = none yet."""
    if lived_s >= LIVED_S or not pause_s:
        return FIRST_PAUSE_S
    return min(2 * pause_s, LONGEST_PAUSE_S)


def trim(log: Path, most_bytes: int = MOST_LOG_BYTES) -> None:
    """Keep a log that others append to, and the one before it, below a size."""
    try:
        if log.stat().st_size > most_bytes:
            shutil.copyfile(log, log.with_name(f"{log.name}.1"))
            os.truncate(log, 0)
    except FileNotFoundError:
        pass
    except OSError:
        os.truncate(log, 0)  # no room for a copy: rather no log than a full disk


class AgentKeeper:
    """Runs the agent, and starts it again when it ends, less and less often."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = list(command), log
        self._stopped, self._changing = threading.Event(), threading.Lock()
        self._running: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="agent", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Have it end, and wait a while for that."""
        self._stopped.set()
        with self._changing:
            if self._running is not None:
                self._running.terminate()
        self._thread.join(END_S)

    def _keep(self) -> None:
        pause_s = 0.0
        while not self._stopped.is_set():
            began_s = time.monotonic()
            with contextlib.suppress(OSError):  # a full disk, no more processes: it may pass
                self._live()
            pause_s = next_pause_s(pause_s, time.monotonic() - began_s)
            self._stopped.wait(pause_s)

    def _live(self) -> None:
        """One agent from its start to its end."""
        process = self._begin()
        while process is not None and not _ended(process):
            trim(self._log)

    def _begin(self) -> subprocess.Popen[bytes] | None:
        """The next agent; None once it is to be no more."""
        trim(self._log)
        with self._changing, open(self._log, "ab") as file:
            if self._stopped.is_set():
                return None
            self._running = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
            return self._running


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it ends within the time after which the log is looked at.

    Asleep meanwhile: `Popen.wait` with a time limit looks twenty times a second.
    """
    if process.poll() is not None:
        return True
    ends = os.pidfd_open(process.pid)
    try:
        if not select.select([ends], (), (), LOG_LOOK_S)[0]:
            return False
    finally:
        os.close(ends)
    process.wait()
    return True
