"""How much of a cluster a place rule can allocate: GPUs left over when nothing more fits.

Pods of a trace are drawn at random, with repetition, until they ask for `over` times the devices
that the cluster has; they arrive one by one and none leaves. What is unallocated at the end is
stranded: on devices with too little left, or on nodes without the cores or memory to use them.
This is the experiment of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), run through
the twin. The usual jobs of place = fgd are the trace's own pods, never those drawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.knobs import Knobs
from flyball.core.shared_data import shared_data
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.core.workload import Mix, Workload
from flyball.twin.inputs.cluster_file import load_cluster
from flyball.twin.inputs.traces import read_trace
from flyball.twin.twin import Twin

FOLDER = "alibaba_openb_2023"
NEVER_S = 1e9
"""Run time of every pod, far longer than the arrivals take."""

PUBLISHED = {"random": 0.125, "best-fit": 0.069, "fgd": 0.046}
"""Unallocated share of the 6,212 GPUs at 130 %, as the authors report it for their rules."""
PUBLISHED_OVER = 1.3
DRAWS = 2023
"""Seed that separates these draws from those on which place = fgd was developed."""


@dataclass(frozen=True)
class PlacementSetting:
    """A cluster and the pods to draw from; `published` if `PUBLISHED` is about these."""

    cluster: Cluster
    trace: Workload
    published: bool


def load(nodes: Path | None, pods: Path | None, note: Callable[[str], None]) -> PlacementSetting:
    """Load the setting from these files, or from the shared data where none is named.

    Raises:
        DataAbsent: the shared data is not on this machine.
        BadInput: a file that cannot be used.
    """
    notes: list[str] = []
    cluster = load_cluster(nodes or shared_data(FOLDER, "nodes.csv.gz"))
    trace = read_trace(pods or shared_data(FOLDER, "pods.csv.gz"), notes=notes)
    for text in notes:
        note(text)
    return PlacementSetting(cluster, trace, nodes is None and pods is None)


def draw(setting: PlacementSetting, over: float, seed: int) -> Workload:
    """Draw pods, with repetition, until they ask for `over` times the devices."""
    trace, rng = setting.trace, np.random.default_rng([DRAWS, seed])
    asked = trace.devices * trace.milli
    target = over * setting.cluster.device_count * MILLI_PER_DEVICE
    assert asked.any(), "a trace has pods that ask for devices"
    rows = np.zeros(0, np.int64)
    while asked[rows].sum() < target:
        rows = np.append(rows, rng.integers(0, len(trace), 1000))
    rows = rows[: int(np.searchsorted(np.cumsum(asked[rows]), target)) + 1]
    count = len(rows)
    return replace(
        trace.take(rows),
        name=f"{trace.name}, seed {seed}",
        ids=np.array([f"p{at}" for at in range(count)]),
        submit_us=np.arange(count) * US_PER_S,
        duration_us=np.full(count, NEVER_S * US_PER_S),
        priority=np.zeros(count),
        mix=Mix.of(trace),
    )


def fill(setting: PlacementSetting, workload: Workload, rule: str) -> dict[str, Any]:
    """Place the pods by one rule; return what is left, and the CPU time it took."""
    began = time.process_time()
    twin = Twin(setting.cluster, workload, Knobs().with_settings([f"place={rule}"]))
    built = time.process_time()
    twin.run(int(workload.submit_us[-1]))
    done = time.process_time()
    total = setting.cluster.device_count * MILLI_PER_DEVICE
    return {
        "pods": len(workload),
        "placed": int(twin.state.clock[0].starts),
        "unallocated": 1.0 - float(twin.state.nodes.used_milli.sum()) / total,
        "run_cpu_s": done - built,
        "build_cpu_s": built - began,
    }


def compare(
    setting: PlacementSetting,
    rules: list[str],
    over: float,
    seeds: int,
    step: Callable[[str], None],
) -> dict[str, Any]:
    """Measure everything that `flyball bench placement` reports; all rules see the same draws.

    Args:
        step: receives the name of each run that is over.
    """
    runs: dict[str, list[dict[str, Any]]] = {rule: [] for rule in rules}
    for seed in range(seeds):
        workload = draw(setting, over, seed)
        for rule in rules:
            runs[rule].append(fill(setting, workload, rule))
            step(f"{rule}, seed {seed}")
    comparable = setting.published and over == PUBLISHED_OVER
    return {
        "nodes": setting.cluster.node_count,
        "devices": setting.cluster.device_count,
        "trace_pods": len(setting.trace),
        "over": over,
        "seeds": seeds,
        "rules": [
            {
                "rule": rule,
                **_summed(rule_runs),
                "published": PUBLISHED.get(rule) if comparable else None,
            }
            for rule, rule_runs in runs.items()
        ],
    }


def _summed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    left = [run["unallocated"] for run in runs]
    pods, cpu_s = sum(run["pods"] for run in runs), sum(run["run_cpu_s"] for run in runs)
    return {
        "unallocated_mean": float(np.mean(left)),
        "unallocated_least": min(left),
        "unallocated_most": max(left),
        "pods_mean": pods / len(runs),
        "placed_mean": float(np.mean([run["placed"] for run in runs])),
        "pods_per_cpu_s": pods / cpu_s,
        "build_cpu_s": float(np.mean([run["build_cpu_s"] for run in runs])),
    }
