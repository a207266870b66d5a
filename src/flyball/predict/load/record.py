"""Records how much of a core a process uses, every few milliseconds, from a nanosecond counter.

The counter is the CPU-time clock of the process (`clock_getcpuclockid` of POSIX): the time of all
its threads as counted by the scheduler, up to date when it is read, where `/proc/stat` has steps
of 10 ms. A value is the CPU time between two readings / the time between them, so it is the
average of the interval that ends at its stamp.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput, UnknownName
from flyball.predict.load import workloads

STEP_S = 0.05
FASTEST_S = 0.01
LONGEST_S = 86_400.0
WARM_UP_S = 1.0
"""Time before recording starts: a new process imports and allocates first."""
UNEVEN = 0.2
"""Part of a step by which an interval may be longer or shorter than requested."""
COLUMNS = ("workload", "time_s", "use_percent")
SHIPPED = "utilisation_50ms.csv.gz"


def shipped() -> Path:
    """Return the path of the recording that comes with the package."""
    return Path(str(files("flyball.data").joinpath(SHIPPED)))


def cpu_clock(pid: int) -> int:
    """Return the id of a process's CPU-time clock, as `clock_getcpuclockid` does on Linux."""
    return (~pid << 3) | 2


def use_of(pid: int, seconds: float, step_s: float = STEP_S) -> list[tuple[float, float]]:
    """Return (time since the start, percent of a core) at every step while the process lives.

    Raises:
        BadInput: a time is out of range, or there is no such process.
    """
    if not FASTEST_S <= step_s <= seconds <= LONGEST_S:
        raise BadInput(
            f"{seconds:g} s at steps of {step_s:g} s",
            f"record {FASTEST_S:g} s or more at a step, at most {LONGEST_S:g} s",
        )
    clock = cpu_clock(pid)
    rows: list[tuple[float, float]] = []
    try:
        began = time.monotonic()
        then, used = began, time.clock_gettime(clock)
        index, steps = 1, int(seconds / step_s)
        while index <= steps:
            time.sleep(max(0.0, began + index * step_s - time.monotonic()))
            now, total = time.monotonic(), time.clock_gettime(clock)
            # On a busy machine a reading may be late. Its interval then has the wrong length: the
            # value is missing, and so are those of missed deadlines.
            if abs(now - then - step_s) <= UNEVEN * step_s:
                rows.append((now - began, 100.0 * (total - used) / (now - then)))
            then, used = now, total
            index = max(index + 1, math.ceil((now - began) / step_s))
    except OSError as error:
        if not rows:
            raise BadInput(f"no process {pid}", "name one that runs") from error
    return rows


def record(
    kinds: Sequence[str],
    seconds: float,
    step_s: float = STEP_S,
    seed: int = 1,
    note: Callable[[str], None] = lambda _text: None,
) -> list[tuple[str, float, float]]:
    """Run each of our workloads alone and record it.

    Returns:
        Rows of `COLUMNS`.

    Raises:
        UnknownName: there is no such workload.
    """
    for kind in kinds:
        if kind not in workloads.KINDS:
            raise UnknownName("workload", kind, workloads.KINDS)
    rows: list[tuple[str, float, float]] = []
    for kind in kinds:
        note(f"recording {kind}: {seconds:g} s")
        command = [sys.executable, str(Path(workloads.__file__)), kind, str(seed)]
        with subprocess.Popen(command) as process:
            try:
                time.sleep(WARM_UP_S)
                rows += [(kind, *row) for row in use_of(process.pid, seconds, step_s)]
            finally:
                process.kill()
    return rows


def write(path: Path, rows: Iterable[tuple[str, float, float]], card: Mapping[str, Any]) -> Path:
    """Write a CSV file, gzipped if its name ends in `.gz`, and a card with its origin.

    The gzip header has no date, so that the same rows give the same file.

    Returns:
        The card's path.
    """
    text = io.StringIO()
    text.write(",".join(COLUMNS) + "\n")
    for kind, time_s, use in rows:
        text.write(f"{kind},{time_s:.4f},{use:.2f}\n")
    raw = text.getvalue().encode()
    path.write_bytes(gzip.compress(raw, 9, mtime=0) if path.suffix == ".gz" else raw)
    card_path = path.with_name(path.name.split(".")[0] + ".json")
    card_path.write_text(json.dumps(card, indent=2) + "\n", "utf-8")
    return card_path


def card_of(
    rows: Sequence[tuple[str, float, float]], seconds: float, step_s: float, seed: int
) -> dict[str, Any]:
    """Return when, where and how; and the missing part, which shows how busy the machine was."""
    expected = max(1, len({kind for kind, _, _ in rows}) * int(seconds / step_s))
    return {
        "recorded": datetime.now(UTC).date().isoformat(),
        "machine": machine(),
        "counter": "CPU-time clock of the process (POSIX), ns",
        "seconds": seconds,
        "step_s": step_s,
        "rows": len(rows),
        "missing_percent": round(100.0 * (1.0 - len(rows) / expected), 1),
        "seed": seed,
    }


def machine() -> str:
    """Return the processor, the number of cores, and the kernel."""
    model = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line[:10] == "model name")
    except (OSError, StopIteration):
        pass  # not Linux on x86: use the machine type
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.release()}"
