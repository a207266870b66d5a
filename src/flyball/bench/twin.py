"""How fast the twin is, here: saturated clusters with real queues, in CPU time.

An event is an arrival, a start, an end, a preemption, a failure or a repair. Every case is
run on fresh twins; the fastest of a few repeats counts, since other work on the machine can
only slow one down. Building the state and reading files are not part of a case.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import DataAbsent
from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.shared_data import shared_data
from flyball.core.state import clone
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.inputs.traces import read_trace
from flyball.twin.reference.run import Reference
from flyball.twin.twin import Twin, warm

Note = Callable[[str], None]
REPEATS = 4
DEVICES_PER_NODE = 8


@dataclass(frozen=True)
class TwinCase:
    """A full cluster with `pending` jobs in the queue at the start while `jobs` more arrive."""

    name: str
    nodes: int
    pending: int
    jobs: int
    knobs: Knobs


SRTF = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=60.0)
EASY = Knobs(backfill=Backfill.EASY, depth=1000)
CASES = (
    TwinCase("priority-1k", 1_000, 80_000, 150_000, Knobs()),
    TwinCase("priority-10k", 10_000, 100_000, 250_000, Knobs()),
    TwinCase("easy-1k", 1_000, 50_000, 150_000, EASY),
    TwinCase("preempt-1k", 1_000, 90_000, 150_000, SRTF),
)
QUEUE_LENGTHS = (1_000, 10_000, 100_000)
SCALING = {
    "static": Knobs(),
    "shortest": Knobs(order=Order.SHORTEST),
    "easy": EASY,
    "preempt": SRTF,
}


def saturated(case: TwinCase, seed: int = 0) -> tuple[Cluster, Workload]:
    """The case's cluster, and jobs of mixed size, length and priority that keep it full.

    A job arrives whenever one starts, so that the queue keeps its length: the instants are those
    of the starts if all jobs were there from the beginning.
    """
    rng = np.random.default_rng(seed)
    filling = case.nodes * DEVICES_PER_NODE // 2  # start at once and fill the devices
    jobs = filling + case.pending + case.jobs
    devices = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.70, 0.10, 0.10, 0.08, 0.02])
    duration_s = np.minimum(rng.lognormal(7.0, 1.5, jobs), 200_000.0)
    priority = rng.integers(0, 3, jobs).astype(np.float64)
    cluster = Cluster(case.name, (NodeGroup("n", case.nodes, "V100", DEVICES_PER_NODE),))
    columns = (duration_s, devices)
    pilot = Twin(cluster, Workload.of("pilot", np.zeros(jobs), *columns), Knobs())
    pilot.run()
    starts_s = np.sort(pilot.state.runs.first_start_us) / US_PER_S
    submit_s = np.concatenate([np.zeros(jobs - case.jobs), starts_s[filling:][: case.jobs]])
    return cluster, Workload.of(case.name, submit_s, *columns, priority=priority)


def run(note: Note) -> dict[str, Any]:
    """Every figure of `flyball bench twin`."""
    note("first compile, in an empty cache")
    figures: dict[str, Any] = {"first_compile_s": first_compile_s()}
    warm(note)
    figures["cases"] = []
    for case in CASES:
        note(case.name)
        figures["cases"].append(measure(case))
    note("time per event against the length of the queue")
    figures["ns_per_event_by_pending"] = scaling()
    note("reference")
    figures["reference_ratio"] = reference_ratio()
    figures |= clone_us()
    note("a million jobs")
    figures["million_jobs_cpu_s"] = million_jobs_cpu_s()
    figures |= philly_a()
    return figures


def measure(case: TwinCase) -> dict[str, Any]:
    """Events per CPU-second while jobs arrive, from the moment the queue is full."""
    cluster, workload = saturated(case)
    end_us = int(workload.submit_us[-1])
    best_s, pending, events = float("inf"), [0], 0
    for _ in range(REPEATS):
        twin = Twin(cluster, workload, case.knobs)
        twin.run(0)
        first = count_events(twin)
        pending, spent_s = [], 0.0
        for part in range(1, 21):
            began = time.process_time()
            twin.run(end_us * part // 20)
            spent_s += time.process_time() - began
            pending.append(int(twin.state.clock[0].pending))
        events = count_events(twin) - first
        best_s = min(best_s, spent_s)
    return {
        "name": case.name,
        "nodes": case.nodes,
        "pending_mean": float(np.mean(pending)),
        "events": events,
        "events_per_s": events / best_s,
    }


def count_events(twin: Twin) -> int:
    """Events so far."""
    clock = twin.state.clock[0]
    kinds = ("arrivals", "starts", "ends", "preemptions", "failures", "repairs")
    return sum(int(clock[kind]) for kind in kinds)


def scaling() -> dict[str, dict[str, float]]:
    """Nanoseconds per event at several queue lengths, by kind of order."""
    found: dict[str, dict[str, float]] = {}
    for name, knobs in SCALING.items():
        found[name] = {}
        for pending in QUEUE_LENGTHS:
            figures = measure(TwinCase(name, 1_000, pending, 30_000, knobs))
            found[name][str(pending)] = 1e9 / figures["events_per_s"]
    return found


def reference_ratio() -> float:
    """How many times faster the compiled twin is than the reference, on the same small case."""
    cluster, workload = saturated(TwinCase("reference", 4, 200, 800, Knobs()))
    best_s = float("inf")
    for _ in range(REPEATS):
        twin = Twin(cluster, workload, Knobs())
        oracle = Reference(twin.state, Knobs())
        began = time.process_time()
        twin.run()
        best_s = min(best_s, time.process_time() - began)
    began = time.process_time()
    oracle.run()
    return (time.process_time() - began) / best_s


def clone_us() -> dict[str, Any]:
    """Microseconds to clone a full cluster of a thousand nodes into an earlier clone."""
    cluster, workload = saturated(TwinCase("clone", 1_000, 500, 1_000, Knobs()))
    twin = Twin(cluster, workload, Knobs())
    twin.run(int(workload.submit_us[-1]) // 2)
    copy = clone(twin.state)
    into, fresh = [], []
    for _ in range(200):
        began = time.perf_counter()
        clone(twin.state, copy)
        into.append(time.perf_counter() - began)
        began = time.perf_counter()
        clone(twin.state)
        fresh.append(time.perf_counter() - began)
    return {
        "clone_us_1k": 1e6 * float(np.median(into)),
        "clone_fresh_us_1k": 1e6 * float(np.median(fresh)),
        "clone_kib": twin.state.arena.nbytes / 1024,
        "clone_jobs": len(workload),
        "clone_running": int(twin.state.clock[0].running),
    }


def million_jobs_cpu_s() -> float:
    """CPU time of a million jobs from columns in memory to the last end, building included."""
    filling = 1_000 * DEVICES_PER_NODE // 2
    case = TwinCase("million", 1_000, 50_000, 950_000 - filling, Knobs())
    cluster, workload = saturated(case)
    assert len(workload) == 1_000_000
    best_s = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        Twin(cluster, workload, Knobs()).run()
        best_s = min(best_s, time.process_time() - began)
    return best_s


def philly_a() -> dict[str, Any]:
    """CPU time of the Philly jobs of one tenant under strict FIFO, and of reading the file."""
    try:
        path = shared_data("peer_runs", "philly_a_jobs.csv.gz")
    except DataAbsent:
        return {"philly_a_fifo_cpu_s": None, "philly_a_read_cpu_s": None}
    began = time.process_time()
    workload = read_trace(path)
    read_s = time.process_time() - began
    cluster = Cluster("philly-a", (NodeGroup("n", 8, "V100", 8),))
    best_s = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        Twin(cluster, workload, get_policy("fifo").knobs).run()
        best_s = min(best_s, time.process_time() - began)
    return {"philly_a_fifo_cpu_s": best_s, "philly_a_read_cpu_s": read_s}


COMPILE = "from flyball.twin.twin import warm; print(warm())"


def first_compile_s() -> float:
    """Wall time of the first compile, in a process of its own with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FLYBALL_CACHE": folder}
        done = subprocess.run(
            [sys.executable, "-c", COMPILE],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout)
