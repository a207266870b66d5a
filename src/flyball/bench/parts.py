"""What single parts take on this machine, each against a bar.

CPU time, and the least of a few runs: other work on the machine can only add to it. What a whole
system takes is measured elsewhere (`bench submit`, `bench twin`, `bench tune`).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import UnknownName
from flyball.core.knobs import Knobs
from flyball.core.records import ACTION, records
from flyball.core.units import S_PER_MIN, to_us
from flyball.core.workload import JobClass, Workload
from flyball.predict.load.fleet import Fleet
from flyball.schedule.classify import classify
from flyball.tune.power import Power
from flyball.twin.generate import generate
from flyball.twin.inputs.traces import read_trace, write_trace
from flyball.twin.twin import Twin

Row = dict[str, Any]
Note = Callable[[str], None]
Work = Callable[[], object]
REPEATS = 5
DEVICES = 8
"""Of a node."""


@dataclass(frozen=True)
class Sizes:
    """How much of each is done in a run.

    Attributes:
        rows: of a trace that is read.
        jobs: that are generated.
        classified: jobs whose class is found out.
        batch: jobs of a submitted batch, as many as one may have.
        nodes: whose caps all change in a round of `power`.
        series: that are forecast once a minute.
    """

    rows: int = 200_000
    jobs: int = 100_000
    classified: int = 1_000_000
    batch: int = 10_000
    nodes: int = 1_000
    series: int = 1_000


@dataclass(frozen=True)
class TimedPart:
    """One figure.

    Attributes:
        about: what is done, with `{size}` for how much.
        size: the name in `Sizes` of how much.
        bar_s: CPU seconds it should take at most.
        prepare: makes what is to be measured, from the size and a folder for files.
        clock: CPU seconds that were spent on it so far.
    """

    about: str
    size: str
    bar_s: float
    prepare: Callable[[int, Path], Work]
    clock: Callable[[], float] = time.process_time


def run(
    note: Note, only: Sequence[str] = (), sizes: Sizes | None = None, repeats: int = REPEATS
) -> list[Row]:
    """The rows of the parts named, or of all.

    Raises:
        UnknownName: no such part.
    """
    for name in only:
        if name not in PARTS:
            raise UnknownName("part", name, PARTS)
    return [measured(PARTS[name], sizes or Sizes(), repeats, note) for name in only or PARTS]


def measured(part: TimedPart, sizes: Sizes, repeats: int, note: Note) -> Row:
    """The row of one part: the quickest of its runs."""
    size = getattr(sizes, part.size) if part.size else 1
    about = part.about.format(size=f"{size:,}")
    note(about)
    with tempfile.TemporaryDirectory() as folder:
        work = part.prepare(size, Path(folder))
        value = min(_spent_s(work, part.clock) for _ in range(repeats))
    return {
        "part": about,
        "value": value,
        "unit": "CPU s",
        "bar": part.bar_s,
        "holds": value <= part.bar_s,
    }


def _spent_s(work: Work, clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


# Parts --------------------------------------------------------------------------------


def _children_s() -> float:
    """CPU seconds of processes that were started and have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _start(_size: int, _folder: Path) -> Work:
    command = [sys.executable, "-m", "flyball", "--help"]
    return lambda: subprocess.run(command, check=True, capture_output=True)


def _read(size: int, folder: Path) -> Work:
    path = folder / "trace.csv"
    write_trace(Workload.of("many", np.arange(size), 60.0, 1), path)
    return lambda: read_trace(path)


def _generate(size: int, _folder: Path) -> Work:
    return lambda: generate("philly-like", 0, jobs=size)


def _classify(size: int, _folder: Path) -> Work:
    rng = np.random.default_rng(1)
    memory, gang = rng.integers(0, 80_000, size), 2 ** rng.integers(0, 6, size)
    duration = rng.lognormal(20, 2, size)
    return lambda: classify(memory, gang, 1000, duration, -1)


def _batch(size: int, _folder: Path) -> Work:
    from pydantic_core import to_json

    from flyball.api.models import BATCH
    from flyball.api.specs import checked, specs_of

    job = {"argv": ["sleep", "60"], "name": "x", "cwd": "/", "env": {"A": "b"}, "cpus": 2}
    body = to_json({"jobs": [job] * size})
    return lambda: specs_of(checked(BATCH, body)["jobs"])


def _power(size: int, _folder: Path) -> Work:
    """Jobs of one device on half of all devices, of a whole node on three nodes in ten."""
    devices = [1] * (size * DEVICES // 2) + [DEVICES] * (3 * size // 10)
    kind = int(JobClass.COMPUTE_INTENSIVE)
    jobs = Workload.of("full", [0.0] * len(devices), 7200.0, devices, kind=kind)
    cluster = Cluster("full", (NodeGroup("n", size, "V100", DEVICES),))
    twin = Twin(cluster, jobs, Knobs())
    twin.run(to_us(60.0))
    state, tuner, before = twin.snapshot(), Power(), records(0, ACTION)
    state.clock.now_us = to_us(60.0)
    return lambda: tuner.adjust(state, None, before)


def _forecast(size: int, _folder: Path) -> Work:
    rng = np.random.default_rng(1)
    fleet = Fleet(size, S_PER_MIN, 10)
    for _ in range(12):  # so that outcomes are being learnt
        fleet.observe(rng.random(size))
    return lambda: fleet.observe(rng.random(size))


PARTS = {
    "start": TimedPart("flyball --help", "", 0.3, _start, _children_s),
    "read": TimedPart("reading {size} rows of a trace", "rows", 2.0, _read),
    "generate": TimedPart("generating {size} jobs", "jobs", 1.0, _generate),
    "classify": TimedPart("classifying {size} jobs", "classified", 1.0, _classify),
    "batch": TimedPart("reading a batch of {size} submitted jobs", "batch", 1.0, _batch),
    "power": TimedPart("a round of power at {size} nodes, every cap changes", "nodes", 1.0, _power),
    "forecast": TimedPart("a minute of {size} forecast series", "series", 1.5, _forecast),
}
