"""The raw results of a run, from which every metric is computed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from flyball.core.units import US_PER_S, duration_text

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mark:
    """Cumulative totals at one instant; metrics of a window are differences of two marks.

    Attributes:
        time_us: the instant.
        work_us: reference device-microseconds of work done (running jobs pro rata, lost work not).
        energy_j: of all nodes, idle and host included.
        busy_us: device time in use.
        finished: jobs ended.
        money: what that energy cost, in the cluster's currency; None = it has no price.
        carbon_g: grams of CO2 of that energy; None = the cluster has no carbon intensity.
    """

    time_us: int
    work_us: float
    energy_j: float
    busy_us: float
    finished: int
    money: float | None = None
    carbon_g: float | None = None


@dataclass(frozen=True)
class Results:
    """A finished run: arrays by job (in the workload's order) and by node, and totals.

    Attributes:
        submit_us, first_start_us, end_us: instants of each job.
        devices, milli: what it asked for.
        solo_us: its run time alone on the pool that is fastest for it.
        reference_us: its work in reference device-microseconds.
        service_us: device time it held.
        waking_us: time it held devices of nodes that were not awake yet.
        lost_us: work done twice, in microseconds of its progress.
        energy_j: its devices' draw and its share of the hosts.
        priority, tenant, status, attempts, preemptions, failures, pool: as named.
        moves: of its preemptions, those after which it went on elsewhere at once.
        node_capacity, node_busy_us, node_energy_j, node_asleep_us: per node.
        money, carbon_g: of its energy, by the price and the carbon intensity at the time; None =
            the cluster has none.
        node_money, node_carbon_g: likewise per node, idle and host included.
        start_us, stop_us: first submission and last event of the run.
        window: marks at 10 % and at 100 % of the arrival span.
        events: total of arrivals, starts, ends, preemptions, failures and repairs.
    """

    submit_us: Ints
    first_start_us: Ints
    end_us: Ints
    devices: Ints
    milli: Ints
    solo_us: Floats
    reference_us: Floats
    service_us: Floats
    waking_us: Ints
    lost_us: Floats
    energy_j: Floats
    priority: Floats
    tenant: Ints
    status: Ints
    attempts: Ints
    preemptions: Ints
    moves: Ints
    failures: Ints
    pool: Ints
    node_capacity: Ints
    node_busy_us: Floats
    node_energy_j: Floats
    node_asleep_us: Floats
    start_us: int
    stop_us: int
    window: tuple[Mark, Mark]
    peak_power_w: float
    events: int
    decisions: int
    money: Floats | None = None
    carbon_g: Floats | None = None
    node_money: Floats | None = None
    node_carbon_g: Floats | None = None

    def __repr__(self) -> str:
        span = duration_text((self.stop_us - self.start_us) / US_PER_S)
        jobs = f"{len(self.submit_us):,} jobs on {len(self.node_capacity):,} nodes"
        return f"Results({jobs} over {span}, {self.events:,} events)"
