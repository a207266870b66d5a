"""The monitoring agent: one small process that samples this machine and its jobs.

    python -m flyball.monitor.agent --state DIR [--rate compute=50ms] [--host-watts 60:200] \
        [--keep-days 7] [--keep-mib 512] [--only compute,memory]

It ends on SIGTERM or when its parent ends, and leaves complete segments behind.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from flyball.core.clock import VirtualClock
from flyball.core.errors import BadInput, FlyballError
from flyball.monitor import registry
from flyball.monitor.host_power import catalogue_power, host_power
from flyball.monitor.keep import Keep, checked_keep
from flyball.monitor.loop import Loop
from flyball.monitor.publish import FAST, Outlet
from flyball.monitor.rates import FASTEST, Rates, parse_rates
from flyball.monitor.sensor import HostPower, Site
from flyball.monitor.slot import Slot
from flyball.monitor.spool import SEGMENT_S

STORE_S = 300.0
"""How often finished spools are converted to segments: starting the process that does it costs as
much CPU time as a minute of sampling, so it handles several minutes at a time."""
LONGEST_STORE_S = 60.0
MOST_FAST_S = 3600.0


class SteadyClock(VirtualClock):
    """Seconds since 1970 that never go back: the time of day at the start, advanced by the time
    since boot, which continues while a laptop sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self._offset_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)

    def now(self) -> float:
        return self._offset_s + time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class StoreKeeper:
    """Starts `flyball.monitor.store` at intervals, and waits for it only at the end."""

    def __init__(self, folder: Path, keep: Keep = Keep()) -> None:  # noqa: B008 (it is frozen)
        self._folder, self._keep = folder, keep
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = -math.inf
        self.failures = 0

    def each_second(self, now: float) -> None:
        if self._process is not None:
            if now - self._began_s > LONGEST_STORE_S:
                self._process.kill()
            if self._process.poll() is None:
                return
            self.failures += self._process.returncode != 0
            self._process = None
        # A little after the minute, so that the spool of the previous minute is closed.
        if now - self._began_s >= STORE_S and now % SEGMENT_S >= 2.0:
            self._start(now, now // SEGMENT_S * SEGMENT_S)

    def finish(self, now: float) -> None:
        """Convert all spools to segments, and wait for that."""
        for start in (True, False):
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(LONGEST_STORE_S)
            if start:
                self._start(now, math.inf)

    def _start(self, now: float, before_s: float) -> None:
        self._began_s = now
        command = [sys.executable, "-m", "flyball.monitor.store", str(self._folder)]
        command += ["--before", str(before_s)]
        command += ["--keep-days", f"{self._keep.days:g}", "--keep-mib", f"{self._keep.mib:g}"]
        # Its stderr goes where the agent's goes.
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )


class Agent:
    """Combines collectors, loop, outlet and store; `run` samples until told to stop."""

    def __init__(
        self,
        site: Site,
        rates: Rates,
        names: Sequence[str],
        keep: Keep = Keep(),  # noqa: B008 (it is frozen)
        clock: VirtualClock | None = None,
    ) -> None:
        assert site.state is not None
        self._folder = site.state / "telemetry"
        self._clock = clock or SteadyClock()
        self._rates = rates
        self._fast_until_s = 0.0
        self._outlet = Outlet(self._folder)
        self._keeper = StoreKeeper(self._folder, keep)
        self.slots = [
            Slot(name, registry.get_collector(name), site, outside=registry.is_outside(name))
            for name in names
        ]
        self._loop = Loop(self.slots, self._clock, self._outlet, self._each_second)
        self._loop.set_rates(rates)

    def run(self, stop: Callable[[], bool]) -> None:
        try:
            self._loop.run(stop)
        finally:
            self._outlet.publish(self._clock.now(), self._state())
            self._outlet.close()
            self._keeper.finish(self._clock.now())

    def _each_second(self, now: float) -> None:
        self._tier(now)
        self._outlet.publish(now, self._state())
        self._keeper.each_second(now)

    def _tier(self, now: float) -> None:
        """Switch to the fastest rates on request, and back when the time is up."""
        with contextlib.suppress(OSError, ValueError):
            requested_s = float((self._folder / FAST).read_text())
            (self._folder / FAST).unlink()
            if 0 < requested_s < math.inf:
                self._fast_until_s = now + min(requested_s, MOST_FAST_S)
                self._loop.set_rates(FASTEST)
        if self._fast_until_s and now >= self._fast_until_s:
            self._fast_until_s = 0.0
            self._loop.set_rates(self._rates)

    def _state(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "fast": self._fast_until_s > 0,
            "cpu_s": time.process_time(),
            "store_failures": self._keeper.failures,
            "sensors": {slot.name: slot.state() for slot in self.slots},
        }


def build(state: Path, rates: Rates, names: Sequence[str], host: HostPower, keep: Keep) -> Agent:
    """Build an agent of this machine for a state folder."""
    slots: list[Slot] = []

    def ours() -> frozenset[int]:
        jobs = next((slot.sensor for slot in slots if slot.name == "jobs"), None)
        return getattr(jobs, "pids", frozenset())

    agent = Agent(Site(state=state, host_power=host, ours=ours), rates, names, keep)
    slots += agent.slots
    return agent


def lock(folder: Path) -> int:
    """Lock the telemetry folder for this process; returns the lock's descriptor.

    Raises:
        BadInput: another agent uses it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise BadInput(f"{folder} has an agent already", "stop it, or name another") from None
    return file


def main(arguments: list[str] | None = None) -> int:
    """Run the agent process; returns its exit code."""
    parser = argparse.ArgumentParser(prog="flyball.monitor.agent", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the state folder")
    parser.add_argument("--rate", action="append", default=[], metavar="FAMILY=PERIOD")
    parser.add_argument("--only", help="collectors, separated by commas; default: all")
    parser.add_argument("--host-watts", metavar="IDLE:PEAK", help="draw where it is not measured")
    parser.add_argument("--keep-days", type=float, default=Keep.days, help="days of samples kept")
    parser.add_argument("--keep-mib", type=float, default=Keep.mib, help="MiB of samples kept")
    parser.add_argument("--stay", action="store_true", help="keep running when the parent ends")
    options = parser.parse_args(arguments)
    stopped = False

    def on_signal(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True

    parent = os.getppid()
    os.umask(0o077)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        rates = parse_rates(options.rate)
        host = (
            host_power(options.host_watts)
            if options.host_watts
            else catalogue_power(os.cpu_count() or 1)
        )
        keep = checked_keep(options.keep_days, options.keep_mib)
        names = options.only.split(",") if options.only else registry.names()
        lock_file = lock(options.state / "telemetry")
        agent = build(options.state, rates, names, host, keep)
    except FlyballError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    gc.freeze()
    agent.run(lambda: stopped or (not options.stay and os.getppid() != parent))
    os.close(lock_file)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that hangs in a driver must not keep the process alive
