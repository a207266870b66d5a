"""Cost of monitoring on this machine, and whether its figures are right.

A real agent watches real jobs for a minute at the default rates and at the fastest ones. The jobs
are sessions of a few processes that sleep and occasionally work for a millisecond; they report,
while the benchmark sends traffic and writes to disk. psutil, read at the same times as the agent,
is the reference.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from flyball.bench.figure import Bar, Figure
from flyball.bench.monitor.agreement import AGREE, BAR_PERCENT, Reading, agreement, read_now
from flyball.bench.monitor.store import storing_share
from flyball.core.errors import DataAbsent
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile
from flyball.monitor.rates import DEFAULT, FASTEST, Rates
from flyball.monitor.reader import Telemetry
from flyball.monitor.store import size_by_family

MB = 1e6
HOUR_S = 3600.0
WINDOW_S = 10.0
SETTLE_S = 4.0
READY_S = 30.0
WRITTEN_BYTES = SENT_BYTES = 1_000_000
"""Bytes per second to disk and over loopback."""
PIECE_BYTES = 50_000
FAMILY_BARS_MB = {"compute": 24, "memory": 18, "network": 15, "power": 8, "application": 12}

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

MODES = {"default": DEFAULT, "fastest": FASTEST}


def run(
    note: Callable[[str], None],
    runs: RunFile,
    seconds: float = 60.0,
    jobs: int = 8,
    processes: int = 4,
    done: Callable[[str], None] = lambda _mode: None,
) -> tuple[Outcome, dict[str, Any]]:
    """Measure everything that `flyball bench monitor` reports; return parts and figures.

    Args:
        note: receives what is being done.
        runs: keeps each of the two modes as soon as it is complete.
        seconds: length of each of the two modes.
        jobs: sessions that are watched, with `processes` processes each.
        done: receives the name of each mode that is over.

    Raises:
        DataAbsent: the agent does not start on this machine.
    """
    about = f"{jobs} jobs of {processes} processes for {seconds:g} s"
    parts = {
        name: BenchPart(partial(_measured, rates, seconds, jobs, processes), f"rates, {about}")
        for name, rates in MODES.items()
    }
    outcome = run_parts(parts, (), note, runs, [seconds, jobs, processes], done=done)
    figures: dict[str, Any] = {
        "cores": os.cpu_count(),
        "seconds": seconds,
        "jobs": jobs,
        "processes": jobs * processes,
        "modes": {name: result["mode"] for name, result in outcome.results.items()},
        "agreement": outcome.results.get("default", {}).get("agreement", {}),
    }
    return outcome, {**figures, "bars": bar_rows(figures)}


def _measured(
    rates: Rates, seconds: float, jobs: int, processes: int, _note: Callable[[str], None]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="flyball-bench-") as folder:
        mode, readings, telemetry = _mode(Path(folder), rates, seconds, jobs, processes)
        compared = agreement(readings, telemetry) if rates is DEFAULT else {}
    return {"mode": mode, "agreement": compared}


def _mode(
    state: Path, rates: Rates, seconds: float, jobs: int, processes: int
) -> tuple[dict[str, Any], list[Reading], Telemetry]:
    telemetry = Telemetry(state / "telemetry")
    with _sessions(state, jobs, processes), _agent(state, rates) as agent:
        _wait_until(lambda: telemetry.latest(2.0).get("jobs.running") == jobs)
        load = _Load(state, jobs)
        load.run(SETTLE_S, WINDOW_S)
        began, cpu_s = time.monotonic(), _cpu_s(agent.pid)
        readings = load.run(seconds, WINDOW_S)
        sampling = (_cpu_s(agent.pid) - cpu_s) / (time.monotonic() - began)
        pss_mb, on_machine = _pss_mb(agent.pid), len(psutil.pids())
        copy = state / "copy"
        shutil.copytree(state / "telemetry", copy, ignore=shutil.ignore_patterns("*.sock"))
        status = telemetry.status()
    # The agent has ended and left its segments; storing the copy measures what that costs.
    storing = storing_share(copy, state / "stored")
    span_s = _span_s(telemetry)
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
        "failures": sum(sensor.get("failures", 0) for sensor in status["sensors"].values()),
        "missed": sum(sensor.get("missed", 0) for sensor in status["sensors"].values()),
        "absent": {
            name: sensor["absent"]
            for name, sensor in status["sensors"].items()
            if "absent" in sensor
        },
    }
    return figures, readings, telemetry


class _Load:
    """Reports, sends and writes once a second. psutil is read just after the full second, when
    the agent has read every family, so that little other work falls between the two readings."""

    def __init__(self, state: Path, jobs: int) -> None:
        self._reports = str(state / "telemetry" / "report.sock")
        self._file = state / "written"
        self._jobs, self._step = jobs, 0
        self._data = os.urandom(WRITTEN_BYTES)

    def run(self, seconds: float, window_s: float) -> list[Reading]:
        """Return psutil's readings at the beginning and after each window."""
        _sleep_to(0.003)
        readings, end_s = [read_now()], time.time() + seconds
        while time.time() < end_s - 0.5:
            _sleep_to(0.4)
            self._burst()
            _sleep_to(0.003)
            if time.time() - readings[-1].time_s >= window_s - 0.1:
                readings.append(read_now())
        return readings

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


def bar_rows(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each figure with its bar; those of a mode that failed are left out."""
    modes = figures["modes"]
    rows: list[Figure] = []

    def add(name: str, value: float, bar: float) -> None:
        rows.append(Figure(name, value, bar=Bar.at_most(bar)))

    if usual := modes.get("default"):
        add("CPU at default rates, % of one core", usual["cpu_percent_of_core"], 1.5)
    if fast := modes.get("fastest"):
        percent = fast["cpu_percent_of_machine"]
        add("CPU at the fastest rates, % of the machine", percent, 3.0)
    most_mb = max(mode["pss_mb"] for mode in modes.values())
    add("memory of the agent (PSS), MB", most_mb, 100.0)
    if usual:
        for family, bar in FAMILY_BARS_MB.items():
            hourly = usual["mb_per_hour"][family]
            add(f"segments of {family}, MB an hour", hourly, float(bar))
        add("segments of all families, MB an hour", usual["mb_per_hour_total"], 10.0)
        compared = figures["agreement"]
        for name in AGREE:
            add(_agree_name(name), compared[name], BAR_PERCENT)
    return [
        {
            "name": figure.name,
            "value": figure.value,
            "bar": figure.bar.as_json(),
            "holds": figure.holds,
        }
        for figure in rows
    ]


def _agree_name(name: str) -> str:
    what = name.removesuffix("_percent").replace("_", " in ")
    return f"{what} against psutil, % of scale"


@contextlib.contextmanager
def _sessions(state: Path, jobs: int, processes: int) -> Iterator[None]:
    """Run jobs that sleep, each in its own session, with the claims an engine would write."""
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
    """Write the claim of a running attempt, as `docs/concept/control.md` describes it."""
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
    """Run the agent as `flyball up` starts it, until SIGTERM."""
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


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > deadline:
            raise DataAbsent(f"the agent saw no jobs within {READY_S:g} s", "is /proc readable?")
        time.sleep(0.1)


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and its threads, in nanoseconds (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def _pss_mb(pid: int) -> float:
    """Return the memory of a process, with its share of pages that others use too."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / MB
    return float("nan")


def _span_s(telemetry: Telemetry) -> float:
    times_s = telemetry.series("compute.total_percent", HOUR_S)[0]
    return max(1.0, float(times_s[-1] - times_s[0]))


def _sleep_to(part: float) -> None:
    """Sleep until this part of a second has passed."""
    time.sleep((part - time.time() % 1.0) % 1.0)
