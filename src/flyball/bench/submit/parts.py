"""Speed and resource use of the live system, each figure with its bar.

The processes, the disk and the jobs are real; only the nodes of large clusters are virtual. Every
state folder is a temporary one, and nothing that was started is left behind.
"""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from flyball.bench.submit.cycles import cycles
from flyball.bench.submit.idle import idle
from flyball.bench.submit.jobs import jobs
from flyball.bench.submit.rates import batches, submits
from flyball.bench.submit.recovery import recovery
from flyball.bench.submit.rows import Row, SubmitSetting
from flyball.bench.submit.speed import speed
from flyball.core.errors import BadInput
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile

PARTS: dict[str, Callable[[SubmitSetting], list[Row]]] = {
    "submits": submits,
    "batches": batches,
    "cycles": cycles,
    "idle": idle,
    "jobs": jobs,
    "speed": speed,
    "recovery": recovery,
}
SYNCS = 50
IN_MEMORY = ("tmpfs", "ramfs")


def run(
    note: Callable[[str], None],
    runs: RunFile,
    only: Sequence[str] = (),
    quick: bool = False,
    folder: Path | None = None,
    done: Callable[[str], None] = lambda _part: None,
) -> tuple[Outcome, dict[str, Any]]:
    """Measure the parts of `flyball bench submit`; return them, and the machine they ran on.

    Args:
        note: receives what is being done.
        runs: keeps each part as soon as it is complete.
        only: names of parts; none = all.
        quick: small sizes, for a first impression.
        folder: parent of the state folders; default: the system's temporary folder.
        done: receives the name of each part that is over.

    Raises:
        BadInput: an unknown part, or a folder that cannot be written to.
    """
    base = folder or Path(tempfile.gettempdir())
    if not os.access(base, os.W_OK | os.X_OK):
        raise BadInput(f"{base} is not a folder that can be written to", "name another --folder")
    setting = SubmitSetting(base.resolve(), quick, note)
    about = machine(setting.folder)
    if about["file_system"] in IN_MEMORY:
        note(f"{base} is in memory: nothing is durable there; name a disk with --folder")
    parts = {
        name: BenchPart(
            partial(_measured, measure, setting), (measure.__doc__ or "").splitlines()[0]
        )
        for name, measure in PARTS.items()
    }
    sizes = {"quick": quick, "folder": str(setting.folder)}
    outcome = run_parts(parts, only, note, runs, sizes, done=done)
    about["load_1m_after"] = os.getloadavg()[0]
    return outcome, {**about, "quick": quick}


def _measured(
    measure: Callable[[SubmitSetting], list[Row]],
    setting: SubmitSetting,
    _note: Callable[[str], None],
) -> list[Row]:
    return measure(setting)


def machine(folder: Path) -> dict[str, Any]:
    """Describe the machine that the figures were measured on."""
    return {
        "cpu": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": psutil.virtual_memory().total / 1e9,
        "python": platform.python_version(),
        "kernel": platform.release(),
        "file_system": _file_system(folder),
        "sync_ms": _sync_ms(folder),
        "load_1m_before": os.getloadavg()[0],
    }


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system that the folder is on."""
    mounts = [
        disk for disk in psutil.disk_partitions(all=True) if folder.is_relative_to(disk.mountpoint)
    ]
    return max(mounts, key=lambda disk: len(disk.mountpoint)).fstype if mounts else "unknown"


def _sync_ms(folder: Path) -> float:
    """Return the median time to write and sync 4 KiB."""
    took_s = []
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        for _ in range(SYNCS):
            began = time.monotonic()
            file.write(bytes(4096))
            file.flush()
            os.fdatasync(file.fileno())
            took_s.append(time.monotonic() - began)
    return 1e3 * float(np.median(took_s))
