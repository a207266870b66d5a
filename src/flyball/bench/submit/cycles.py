"""Measures control cycles that decide, on clusters of many nodes with long queues.

The nodes are virtual, and so is the clock; the control plane, its journal and the disk are real.
Time jumps from one end of a job to the next. As many jobs are submitted as have started, so that
the queue keeps its length. Filling the empty cluster is not counted: it happens once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flyball.bench.submit.rows import Row, SubmitSetting, at_most
from flyball.bench.submit.server import state_folder
from flyball.control.plane import Plane
from flyball.core.jobs import JobSpec
from flyball.core.live import LiveNode
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine
from flyball.twin.live import warm

POLICIES = ("easy", "fifo-skip")
START_US = 1_700_000_000_000_000
DEVICES_PER_NODE = 8
SIZES, SHARES = (1, 2, 4, 8), (0.6, 0.2, 0.1, 0.1)
"""Devices of a job, and the probability of each size."""
LOG_S, SPREAD = 8.0, 1.5
"""Mean and spread of the log of run times: a median of 50 minutes."""
SHORTEST_S, LONGEST_S = 60.0, 200_000.0
TENANTS, USERS = 8, 50
BATCH = 1_000


@dataclass(frozen=True)
class CycleCase:
    """A size of cluster and queue, with the bar of the 99th percentile."""

    nodes: int
    pending: int
    cycles: int
    bar_ms: float


FULL = (CycleCase(1_000, 10_000, 1_000, 100.0), CycleCase(4_000, 100_000, 200, 1_000.0))
QUICK = (CycleCase(100, 1_000, 100, 100.0),)


def cycles(setting: SubmitSetting) -> list[Row]:
    """Time of a cycle that decides: median and 99th percentile, by cluster and policy."""
    warm(setting.note)
    rows = []
    for case in QUICK if setting.quick else FULL:
        for policy in POLICIES:
            with state_folder(setting.folder) as state:
                world = World(state, case, policy)
                try:
                    rows += cycle_rows(world, setting)
                finally:
                    world.plane.close()
    return rows


def cycle_rows(world: World, setting: SubmitSetting) -> list[Row]:
    case = world.case
    name = f"cycle, {case.nodes:,} nodes, {case.pending:,} pending, {world.policy}"
    setting.note(f"  {name}: filling")
    fill_s = world.fill()
    took_s, cpu_s = world.measure()
    p50_ms, p99_ms = (1e3 * np.percentile(took_s, [50, 99])).tolist()
    cpu50_ms, cpu99_ms = (1e3 * np.percentile(cpu_s, [50, 99])).tolist()
    setting.note(f"  {name}: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms ({cpu99_ms:.1f} of CPU)")
    about = (
        f"{case.nodes * DEVICES_PER_NODE:,} devices, {len(world.plane.columns.running):,} running; "
        f"{len(took_s):,} cycles that decided; filling took {fill_s:.1f} s"
    )
    return [
        at_most(f"{name}: p50", p50_ms, "ms", None, about=about, cpu_ms=cpu50_ms),
        at_most(f"{name}: p99", p99_ms, "ms", case.bar_ms, about=about, cpu_ms=cpu99_ms),
    ]


class World:
    """A control plane over virtual nodes that are full, with a queue."""

    def __init__(self, state: Path, case: CycleCase, policy: str) -> None:
        self.case, self.policy = case, policy
        self._now_us = START_US
        self._rng = np.random.default_rng(0)
        nodes = [
            LiveNode(f"n{at}", "V100", DEVICES_PER_NODE, 64, 524_288) for at in range(case.nodes)
        ]
        self.engine = VirtualEngine(nodes, lambda: self._now_us)
        knobs = get_policy(policy).knobs
        self.plane = Plane(state, self.engine, policy, knobs, lambda _last: lambda: self._now_us)
        self.plane.open()

    @property
    def _pending(self) -> int:
        return len(self.plane.live_state.jobs) - len(self.plane.columns.running)

    def fill(self) -> float:
        """Submit until the queue has its length; return the seconds of the cycles."""
        took_s = 0.0
        while (missing := self.case.pending - self._pending) > 0:
            for _ in range(-(-min(missing, 10 * BATCH) // BATCH)):
                self._submit(BATCH)
            self._now_us += 1
            began = time.monotonic()
            self.plane.step()
            took_s += time.monotonic() - began
        return took_s

    def measure(self) -> tuple[list[float], list[float]]:
        """Return wall and CPU seconds of every cycle that decided."""
        took_s: list[float] = []
        cpu_s: list[float] = []
        while len(took_s) < self.case.cycles:
            self._now_us = self.engine.next_us
            self._submit(self.case.pending - self._pending)
            before = self.plane.decider.number
            began, cpu = time.perf_counter(), time.process_time()
            self.plane.step()
            if self.plane.decider.number > before:
                took_s.append(time.perf_counter() - began)
                cpu_s.append(time.process_time() - cpu)
        return took_s, cpu_s

    def _submit(self, count: int) -> None:
        if count <= 0:
            return
        gpus = self._rng.choice(SIZES, count, p=SHARES).tolist()
        run_s = np.exp(self._rng.normal(LOG_S, SPREAD, count)).clip(SHORTEST_S, LONGEST_S)
        self.plane.submit(
            [
                JobSpec(
                    ("train",), user=f"u{at % USERS}", tenant=f"t{at % TENANTS}", cpus=4,
                    gpus=gpus[at], estimate_s=float(run_s[at]),
                )
                for at in range(count)
            ]
        )  # fmt: skip
