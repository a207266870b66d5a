"""Saturated clusters to measure the twin on: full devices, and a queue that keeps its length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.knobs import Knobs
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.twin.twin import Twin

DEVICES_PER_NODE = 8


@dataclass(frozen=True)
class TwinCase:
    """Describes a full cluster: `pending` jobs wait at the start, and `jobs` more arrive.

    Attributes:
        mixed: nodes of three types, one in five fast and every second one slow; else all alike.
        stretch: factor on the instants of arrival; above 1 the queue runs empty from time to time,
            which leaves room for moves.
    """

    name: str
    nodes: int
    pending: int
    jobs: int
    knobs: Knobs
    mixed: bool = False
    stretch: float = 1.0

    @property
    def cluster(self) -> Cluster:
        """Return the case's cluster."""
        counts = {"V100": self.nodes}
        if self.mixed:
            fast, slow = self.nodes // 5, self.nodes // 2
            counts = {"A100": fast, "V100": self.nodes - fast - slow, "P100": slow}
        groups = (
            NodeGroup(device.lower(), count, device, DEVICES_PER_NODE)
            for device, count in counts.items()
        )
        return Cluster(self.name, tuple(groups))


def saturated(case: TwinCase, seed: int = 0) -> tuple[Cluster, Workload]:
    """Return the case's cluster, and jobs of mixed size, length and priority that keep it full.

    A job arrives whenever one starts, so that the queue keeps its length: the instants are those
    of the starts if all jobs were there from the beginning, times the case's `stretch`.
    """
    rng = np.random.default_rng(seed)
    filling = case.nodes * DEVICES_PER_NODE // 2  # start at once and fill the devices
    jobs = filling + case.pending + case.jobs
    devices = rng.choice([1, 2, 4, 8, 16], jobs, p=[0.70, 0.10, 0.10, 0.08, 0.02])
    duration_s = np.minimum(rng.lognormal(7.0, 1.5, jobs), 200_000.0)
    priority = rng.integers(0, 3, jobs).astype(np.float64)
    cluster = case.cluster
    columns = (duration_s, devices)
    pilot = Twin(cluster, Workload.of("pilot", np.zeros(jobs), *columns), Knobs())
    pilot.run()
    starts_s = np.sort(pilot.state.runs.first_start_us) / US_PER_S * case.stretch
    submit_s = np.concatenate([np.zeros(jobs - case.jobs), starts_s[filling:][: case.jobs]])
    return cluster, Workload.of(case.name, submit_s, *columns, priority=priority)


def count_events(twin: Twin) -> int:
    """Return the number of events so far."""
    clock = twin.state.clock[0]
    kinds = ("arrivals", "starts", "ends", "preemptions", "failures", "repairs")
    return sum(int(clock[kind]) for kind in kinds)
