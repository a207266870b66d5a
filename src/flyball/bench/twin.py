"""Speed of the twin on this machine: saturated clusters with real queues, in CPU time.

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
from dataclasses import replace
from typing import Any

import numpy as np

from flyball.bench import stepping
from flyball.bench.figure import Figure
from flyball.bench.saturated import DEVICES_PER_NODE, TwinCase, count_events, saturated
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import DataAbsent
from flyball.core.knobs import Backfill, Evict, Knobs, Order, Place, Preempt
from flyball.core.shared_data import shared_data
from flyball.core.state import clone
from flyball.schedule.policies.registry import get_policy
from flyball.twin.inputs.traces import read_trace
from flyball.twin.reference.run import Reference
from flyball.twin.twin import Twin, warm

Note = Callable[[str], None]
REPEATS = 4


SRTF = Knobs(order=Order.REMAINING, preempt=Preempt.ROUNDS, round_s=60.0)
EASY = Knobs(backfill=Backfill.EASY, depth=1000)
MOVES = replace(SRTF, place=Place.FASTEST, evict=Evict.FASTEST, move_s=280.0)
CASES = (
    TwinCase("priority-1k", 1_000, 80_000, 150_000, Knobs()),
    TwinCase("priority-10k", 10_000, 100_000, 250_000, Knobs()),
    TwinCase("easy-1k", 1_000, 50_000, 150_000, EASY),
    TwinCase("preempt-1k", 1_000, 90_000, 150_000, SRTF),
    TwinCase("moves-1k", 1_000, 0, 150_000, MOVES, mixed=True, stretch=1.1),
)
QUEUE_LENGTHS = (1_000, 10_000, 100_000)
SCALING = {
    "static": Knobs(),
    "shortest": Knobs(order=Order.SHORTEST),
    "easy": EASY,
    "preempt": SRTF,
}


STEPS = len(CASES) + len(SCALING) * len(QUEUE_LENGTHS) + 5 + stepping.STEPS
"""Number of times that `run` reports progress."""


def run(note: Note, done: Note = lambda _step: None) -> dict[str, Any]:
    """Measure everything that `flyball bench twin` reports.

    Args:
        note: receives what is being measured.
        done: receives the name of each step that is over; there are `STEPS`.
    """
    note("first compile, in an empty cache")
    result: dict[str, Any] = {"first_compile_s": first_compile_s()}
    done("first compile")
    warm(note)
    result["cases"] = []
    for case in CASES:
        note(case.name)
        result["cases"].append(measure(case))
        done(case.name)
    note("time per event against the length of the queue")
    result["ns_per_event_by_pending"] = scaling(done)
    note("reference")
    result["reference_ratio"] = reference_ratio()
    done("reference")
    result |= clone_us()
    done("clones")
    note("a million jobs")
    result["million_jobs_cpu_s"] = million_jobs_cpu_s()
    done("a million jobs")
    result |= philly_a()
    done("Philly A")
    return result | stepping.run(note, done)


SINGLE_FIGURES = {
    "first_compile_s": ("first compile", "s"),
    "reference_ratio": ("speed over the reference's", "x"),
    "clone_us_1k": ("clone into an earlier clone, 1,000 nodes", "us"),
    "clone_fresh_us_1k": ("clone into new memory, 1,000 nodes", "us"),
    "clone_kib": ("size of that clone", "KiB"),
    "clone_jobs": ("jobs in that clone", ""),
    "clone_running": ("running jobs in that clone", ""),
    "million_jobs_cpu_s": ("a million jobs, without files", "CPU-s"),
    "philly_a_fifo_cpu_s": ("Philly A under fifo, without reading it", "CPU-s"),
    "philly_a_read_cpu_s": ("reading Philly A", "CPU-s"),
}
"""Name and unit of the values that `run` returns in addition to its tables."""


def figures(result: dict[str, Any]) -> list[Figure]:
    """Return what `run` measured as figures; only those of steps have bars."""
    cases = [
        Figure(
            f"{case['name']}: {case['nodes']:,} nodes, {case['pending_mean']:,.0f} jobs pending "
            f"on average, {case['events']:,} events",
            case["events_per_s"],
            "events/CPU-s",
        )
        for case in result["cases"]
    ]
    scaled = [
        Figure(f"{order} order, 1,000 nodes, {int(pending):,} pending", value, "ns/event")
        for order, by_pending in result["ns_per_event_by_pending"].items()
        for pending, value in by_pending.items()
    ]
    single = [Figure(name, result[key], unit) for key, (name, unit) in SINGLE_FIGURES.items()]
    return [*cases, *scaled, *single, *stepping.figures(result)]


def measure(case: TwinCase) -> dict[str, Any]:
    """Return events per CPU-second while jobs arrive, from the moment the queue is full."""
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


def scaling(done: Note = lambda _step: None) -> dict[str, dict[str, float]]:
    """Return nanoseconds per event by kind of order and by queue length."""
    times_ns: dict[str, dict[str, float]] = {}
    for name, knobs in SCALING.items():
        times_ns[name] = {}
        for pending in QUEUE_LENGTHS:
            row = measure(TwinCase(name, 1_000, pending, 30_000, knobs))
            times_ns[name][str(pending)] = 1e9 / row["events_per_s"]
            done(f"{name}, {pending:,} pending")
    return times_ns


def reference_ratio() -> float:
    """Return how many times faster the compiled twin is than the reference, on a small case."""
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
    """Measure the time to clone a full cluster of a thousand nodes."""
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
    """Return the CPU time of a million jobs from columns in memory to the last end."""
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
    """Measure the Philly jobs of one tenant under strict FIFO, and reading the file."""
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
    """Return the wall time of the first compile, in another process with an empty cache."""
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
