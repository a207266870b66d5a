"""CPU time of single parts on this machine, each against a bar.

The least of a few runs counts: other work on the machine can only add to it. Whole systems are
measured elsewhere (`bench submit`, `bench twin`, `bench tune`).
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

from flyball.bench.figure import Bar, Figure
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import UnknownName
from flyball.core.forecast import NO_OUTLOOK
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
DEVICES_PER_NODE = 8


@dataclass(frozen=True)
class Sizes:
    """Holds the amount of work of each part.

    Attributes:
        rows: of the trace that is read.
        jobs: generated.
        classified: jobs whose class is determined.
        batch: jobs of a submitted batch, as many as one may have.
        nodes: whose caps all change in a round of `power`.
        series: forecast once a minute.
    """

    rows: int = 200_000
    jobs: int = 100_000
    classified: int = 1_000_000
    batch: int = 10_000
    nodes: int = 1_000
    series: int = 1_000


@dataclass(frozen=True)
class TimedPart:
    """One part to measure.

    Attributes:
        about: what is done, with `{size}` for the amount.
        size: name of the amount in `Sizes`; "" = none.
        bar_s: CPU seconds it should take at most.
        prepare: returns the work to measure, given the size and a folder for files.
        clock: returns the CPU seconds spent so far.
    """

    about: str
    size: str
    bar_s: float
    prepare: Callable[[int, Path], Work]
    clock: Callable[[], float] = time.process_time


def run(
    note: Note,
    only: Sequence[str] = (),
    sizes: Sizes | None = None,
    repeats: int = REPEATS,
    done: Note = lambda _part: None,
) -> list[Row]:
    """Measure the parts named, or all, and return a row each.

    Args:
        note: receives what is being measured.
        only: names of parts; none = all.
        sizes: amounts of work.
        repeats: runs of each part; the quickest counts.
        done: receives the name of each part that is measured.

    Raises:
        UnknownName: no such part.
    """
    for name in only:
        if name not in PARTS:
            raise UnknownName("part", name, PARTS)
    rows = []
    for name in only or PARTS:
        rows.append(measured(PARTS[name], sizes or Sizes(), repeats, note))
        done(name)
    return rows


def measured(part: TimedPart, sizes: Sizes, repeats: int, note: Note) -> Row:
    """Return the row of one part: the quickest of its runs."""
    size = getattr(sizes, part.size) if part.size else 1
    about = part.about.format(size=f"{size:,}")
    note(about)
    with tempfile.TemporaryDirectory() as folder:
        work = part.prepare(size, Path(folder))
        value = min(_spent_s(work, part.clock) for _ in range(repeats))
    figure = Figure(about, value, "CPU s", Bar.at_most(part.bar_s))
    return {
        "part": figure.name,
        "value": value,
        "unit": figure.unit,
        "bar": part.bar_s,
        "holds": figure.holds,
    }


def _spent_s(work: Work, clock: Callable[[], float]) -> float:
    began = clock()
    work()
    return clock() - began


# Parts --------------------------------------------------------------------------------


def _children_s() -> float:
    """Return the CPU seconds of child processes that have ended."""
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
    """Fill half of the devices with jobs of one device, three nodes in ten with jobs of a node."""
    devices = [1] * (size * DEVICES_PER_NODE // 2) + [DEVICES_PER_NODE] * (3 * size // 10)
    kind = int(JobClass.COMPUTE_INTENSIVE)
    jobs = Workload.of("full", [0.0] * len(devices), 7200.0, devices, kind=kind)
    cluster = Cluster("full", (NodeGroup("n", size, "V100", DEVICES_PER_NODE),))
    twin = Twin(cluster, jobs, Knobs())
    twin.run(to_us(60.0))
    state, tuner, before = twin.snapshot(), Power(), records(0, ACTION)
    state.clock.now_us = to_us(60.0)
    return lambda: tuner.adjust(state, NO_OUTLOOK, before)


def _forecast(size: int, _folder: Path) -> Work:
    rng = np.random.default_rng(1)
    fleet = Fleet(size, S_PER_MIN, 10)
    for _ in range(12):  # until it learns from outcomes
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
