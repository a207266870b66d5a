"""What monitoring costs here, and whether its figures are right.

A real agent watches real jobs for a real minute at the default rates and at the fastest ones. The
jobs are sessions of a few processes that sleep and now and then work for a millisecond; they
report, and some traffic and writing goes on beside them. psutil, read beside the agent, is the
second opinion.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from flyball.core.errors import DataAbsent
from flyball.monitor.agent import STORE_S
from flyball.monitor.rates import DEFAULT, FASTEST, Rates
from flyball.monitor.reader import Telemetry
from flyball.monitor.store import size_by_family

MB = 1e6
HOUR_S = 3600.0
WINDOW_S = 10.0
SETTLE_S = 4.0
READY_S = 30.0
WRITTEN_BYTES = SENT_BYTES = 1_000_000
"""Each second to disk and over loopback."""
PIECE_BYTES = 50_000
FAMILY_BARS_MB = {"compute": 24, "memory": 18, "network": 15, "power": 8, "application": 12}
AGREE = {"cpu_percent": 1.0, "memory_percent": 1.0, "network_percent": 1.0, "disk_percent": 1.0}

NOT_USE = ("idle", "iowait", "steal")
"""Kinds of CPU time that are not use. psutil's own percentage counts stolen time, which a
hypervisor gave to others, as if it were."""

JOB = """
import os, sys, time
for _ in range(int(sys.argv[1]) - 1):
    if os.fork() == 0:
        break
while os.getppid() != 1:
    until = time.monotonic() + 0.001
    while time.monotonic() < until:
        pass
    time.sleep(0.2)
"""


class Look(NamedTuple):
    """What psutil says at one moment."""

    time_s: float
    busy_s: float
    all_s: float
    available_bytes: int
    network_bytes: int
    disk_bytes: int


def run(
    note: Callable[[str], None], seconds: float = 60.0, jobs: int = 8, processes: int = 4
) -> dict[str, Any]:
    """Every figure of `flyball bench monitor`.

    Args:
        seconds: of each of the two modes.
        jobs: sessions that are watched, with so many `processes` each.

    Raises:
        DataAbsent: the agent does not start here.
    """
    modes, agreement = {}, {}
    for name, rates in (("default", DEFAULT), ("fastest", FASTEST)):
        note(f"{name} rates: {jobs} jobs of {processes} processes for {seconds:g} s")
        with tempfile.TemporaryDirectory(prefix="flyball-bench-") as folder:
            modes[name], looks, telemetry = _mode(Path(folder), rates, seconds, jobs, processes)
            if name == "default":
                agreement = _agreement(looks, telemetry)
    figures: dict[str, Any] = {
        "cores": os.cpu_count(),
        "seconds": seconds,
        "jobs": jobs,
        "processes": jobs * processes,
        "modes": modes,
        "agreement": agreement,
    }
    return {**figures, "bars": _bars(figures)}


def _mode(
    state: Path, rates: Rates, seconds: float, jobs: int, processes: int
) -> tuple[dict[str, Any], list[Look], Telemetry]:
    telemetry = Telemetry(state / "telemetry")
    with _sessions(state, jobs, processes), _agent(state, rates) as agent:
        _wait_until(lambda: telemetry.latest(2.0).get("jobs.running") == jobs)
        load = _Load(state, jobs)
        load.run(SETTLE_S, WINDOW_S)
        began, cpu_s = time.monotonic(), _cpu_s(agent.pid)
        looks = load.run(seconds, WINDOW_S)
        sampling = (_cpu_s(agent.pid) - cpu_s) / (time.monotonic() - began)
        pss_mb, on_machine = _pss_mb(agent.pid), len(psutil.pids())
        copy = state / "copy"
        shutil.copytree(state / "telemetry", copy, ignore=shutil.ignore_patterns("*.sock"))
        status = telemetry.status()
    # The agent has ended and left its segments; converting the copy tells what that costs.
    empty_s, minute_s = _store_cpu_s(state / "telemetry"), _store_cpu_s(copy)
    span_s = _span_s(telemetry)
    minutes = STORE_S / 60.0
    storing = (empty_s + minutes * max(0.0, minute_s - empty_s) * 60.0 / span_s) / STORE_S
    sizes = size_by_family(telemetry.folder)
    hourly = {family: size / span_s * HOUR_S / MB for family, size in sizes.items()}
    figures = {
        "rates_s": dict(rates),
        "cpu_percent_of_core": 100.0 * (sampling + storing),
        "cpu_percent_of_machine": 100.0 * (sampling + storing) / (os.cpu_count() or 1),
        "sampling_percent_of_core": 100.0 * sampling,
        "storing_percent_of_core": 100.0 * storing,
        "pss_mb": pss_mb,
        "mb_per_hour": hourly,
        "mb_per_hour_total": sum(hourly.values()),
        "processes_on_machine": on_machine,
        "failures": sum(each.get("failures", 0) for each in status["sensors"].values()),
        "missed": sum(each.get("missed", 0) for each in status["sensors"].values()),
        "absent": {
            name: each["absent"] for name, each in status["sensors"].items() if "absent" in each
        },
    }
    return figures, looks, telemetry


class _Load:
    """Reports, traffic and writing once a second. psutil is read just after the full second, when
    the agent has read every family: what others do on the machine between the two readings is
    no fault of either."""

    def __init__(self, state: Path, jobs: int) -> None:
        self._reports = str(state / "telemetry" / "report.sock")
        self._file = state / "written"
        self._jobs, self._step = jobs, 0
        self._data = os.urandom(WRITTEN_BYTES)

    def run(self, seconds: float, window_s: float) -> list[Look]:
        """psutil's view at the beginning and after each window."""
        _sleep_to(0.003)
        looks, end_s = [_look()], time.time() + seconds
        while time.time() < end_s - 0.5:
            _sleep_to(0.4)
            self._burst()
            _sleep_to(0.003)
            if time.time() - looks[-1].time_s >= window_s - 0.1:
                looks.append(_look())
        return looks

    def _burst(self) -> None:
        self._step += 1
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for job in range(1, self._jobs + 1):
                report = {"job": job, "attempt": 1, "step": self._step, "loss": 1.0 / self._step}
                with contextlib.suppress(OSError):  # a full queue loses reports, by design
                    sender.sendto(json.dumps(report).encode(), self._reports)
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname()) as client,
            server.accept()[0] as receiver,
        ):
            for at in range(0, SENT_BYTES, PIECE_BYTES):
                client.sendall(self._data[at : at + PIECE_BYTES])
                receiver.recv(PIECE_BYTES, socket.MSG_WAITALL)
        with self._file.open("wb") as file:
            file.write(self._data)
            file.flush()
            os.fsync(file.fileno())


def _look() -> Look:
    times, network, disk = psutil.cpu_times(), psutil.net_io_counters(), psutil.disk_io_counters()
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return Look(
        time.time(),
        whole - sum(getattr(times, kind, 0.0) for kind in NOT_USE),
        whole,
        psutil.virtual_memory().available,
        network.bytes_recv if network else 0,
        disk.write_bytes if disk else 0,
    )


def _agreement(looks: list[Look], telemetry: Telemetry) -> dict[str, Any]:
    """The largest difference over windows, in percent of full scale.

    Full scale is all cores, all memory, and for traffic what the window itself counted: stricter
    than the speed of a link, which a virtual machine does not tell.
    """
    span_s = looks[-1].time_s - looks[0].time_s + 3600.0
    use = telemetry.series("compute.total_percent", span_s)
    free = telemetry.series("memory.available_bytes", span_s)
    total = float(telemetry.series("memory.total_bytes", span_s)[1][-1])
    names = [name for name in telemetry.names() if name.startswith("network.")]
    traffic = [name for name in names if name.count(".") == 2 and name.endswith("rx_bytes_total")]
    network = [telemetry.series(name, span_s) for name in traffic]
    disk = [telemetry.series("disk.written_bytes_total", span_s)]
    found: dict[str, list[float]] = {name: [] for name in AGREE}
    for old, new in pairwise(looks):
        inside = (use[0] > old.time_s) & (use[0] <= new.time_s)
        theirs = 100.0 * (new.busy_s - old.busy_s) / (new.all_s - old.all_s)
        found["cpu_percent"].append(abs(float(use[1][inside].mean()) - theirs))
        off = abs(_at(free, new.time_s) - new.available_bytes)
        found["memory_percent"].append(100.0 * off / total)
        for name, series, bytes_ in (
            ("network_percent", network, new.network_bytes - old.network_bytes),
            ("disk_percent", disk, new.disk_bytes - old.disk_bytes),
        ):
            ours = sum(_at(each, new.time_s) - _at(each, old.time_s) for each in series)
            found[name].append(100.0 * abs(ours - bytes_) / max(bytes_, 1))
    return {
        "windows": len(looks) - 1,
        "window_s": WINDOW_S,
        **{name: max(values, default=float("nan")) for name, values in found.items()},
    }


def _at(series: tuple[Any, Any], time_s: float) -> float:
    """The value nearest to a time."""
    return float(series[1][int(np.abs(series[0] - time_s).argmin())])


def _bars(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Each promise with what was measured."""
    usual, fast = figures["modes"]["default"], figures["modes"]["fastest"]
    rows = [
        ("CPU at default rates, % of one core", usual["cpu_percent_of_core"], 1.5),
        ("CPU at the fastest rates, % of the machine", fast["cpu_percent_of_machine"], 3.0),
        ("memory of the agent (PSS), MB", max(usual["pss_mb"], fast["pss_mb"]), 100.0),
        *(
            (f"segments of {family}, MB an hour", usual["mb_per_hour"][family], float(bar))
            for family, bar in FAMILY_BARS_MB.items()
        ),
        ("segments of all families, MB an hour", usual["mb_per_hour_total"], 10.0),
        *(
            (f"{name.removesuffix('_percent')} against psutil, % of scale", value, AGREE[name])
            for name, value in figures["agreement"].items()
            if name in AGREE
        ),
    ]
    return [
        {"name": name, "value": value, "bar": bar, "holds": value <= bar}
        for name, value, bar in rows
    ]


@contextlib.contextmanager
def _sessions(state: Path, jobs: int, processes: int) -> Iterator[None]:
    """Jobs that sleep, each in a session of its own, with the claims an engine would make."""
    engine = state / "engine"
    engine.mkdir()
    command = [sys.executable, "-S", "-E", "-c", JOB, str(processes)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for job in range(1, jobs + 1):
            started.append(subprocess.Popen(command, start_new_session=True))
            write_claim(engine, job, 1, started[-1].pid)
        yield
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def write_claim(engine: Path, job: int, attempt: int, pid: int) -> Path:
    """A claim of a running attempt, as `docs/concept/control.md` describes it."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    first = {
        "job": job,
        "attempt": attempt,
        "pid": pid,
        "start": int(stat[stat.rindex(")") + 2 :].split()[19]),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "child": 0,
        "time_us": 0,
    }
    path = engine / f"{job}.{attempt}"
    path.write_text(json.dumps(first).ljust(1023) + "\n" + " " * 3071 + "\n")
    return path


@contextlib.contextmanager
def _agent(state: Path, rates: Rates) -> Iterator[subprocess.Popen[bytes]]:
    """The agent as `flyball up` starts it; it ends with SIGTERM, as always."""
    command = [sys.executable, "-m", "flyball.monitor.agent", "--state", str(state)]
    command += ["--host-watts", "60:200"]
    for family, period_s in rates.items():
        command += ["--rate", f"{family}={period_s * 1e3:g}ms"]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(READY_S)


def _wait_until(true: Callable[[], bool]) -> None:
    until = time.monotonic() + READY_S
    while not true():
        if time.monotonic() > until:
            raise DataAbsent(f"the agent saw no jobs within {READY_S:g} s", "is /proc readable?")
        time.sleep(0.1)


def _cpu_s(pid: int) -> float:
    """CPU time of a process and all its threads, to the nanosecond (see clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def _pss_mb(pid: int) -> float:
    """Memory of a process, with its share of what others use too."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MB
    return float("nan")


def _store_cpu_s(folder: Path) -> float:
    """CPU time of one round of house-keeping."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "flyball.monitor.store", str(folder)]
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _span_s(telemetry: Telemetry) -> float:
    times_s = telemetry.series("compute.total_percent", HOUR_S)[0]
    return max(1.0, float(times_s[-1] - times_s[0]))


def _sleep_to(part: float) -> None:
    """Until this part of a second has passed."""
    time.sleep((part - time.time() % 1.0) % 1.0)
