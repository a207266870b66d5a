"""Compares the market with heSRPT, the optimum in closed form where its assumptions hold.

For jobs that are all there at the start, with sizes known, one type of device and a speed of
k ** p on k devices, mean completion is least if of n jobs the i-th largest has the part
(i/n)^(1/(1-p)) - ((i-1)/n)^(1/(1-p)) of all devices (Berg, Vesilo and Harchol-Balter,
"heSRPT: Parallel scheduling to minimize mean slowdown", Performance Evaluation 144, 2020). With
sizes x_1 >= x_2 >= ... the sum of completion times is then

    sum over k of x_k (k^c - (k-1)^c)^(1-p) / N^p,   c = 1 / (1-p).

It divides devices continuously and without a restart; the market has whole devices and rounds. The
jobs are there at a round, and time counts from then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.records import POINT, RANGE, records
from flyball.core.results import Floats
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.schedule.policies.preset import Preset
from flyball.tune.elastic import Elastic
from flyball.twin.tuning import Tuning
from flyball.twin.twin import Twin

POWERS = (0.3, 0.5, 0.8)
DEVICES = 1000
JOBS = 200
SEEDS = 3
BAR = 5.0
PER_NODE = 8
ROUND_S = 60.0
JUST_S = 1e-6
"""Time before a round at which the jobs come, so that it counts them."""
MARKET = Elastic(
    eta=0.0, energy=0.0, completion=1.0, gap_s=0.0, patience_s=1e9, stretch=0.0, changes=1e9
)


def optimum_s(sizes_s: Floats, power: float, devices: int) -> float:
    """Return the least mean completion time of jobs with these run times on one device."""
    exponent = 1.0 / (1.0 - power)
    ranks = np.arange(1, len(sizes_s) + 1)
    weights = (ranks**exponent - (ranks - 1) ** exponent) ** (1.0 - power)
    total = float((np.sort(sizes_s)[::-1] * weights).sum())
    return float(total / devices**power / len(sizes_s))


def sizes(jobs: int, seed: int) -> Floats:
    """Return run times on one device in seconds: log-normal, some hours."""
    drawn: Floats = np.random.default_rng([seed, 29]).lognormal(np.log(6 * 3600.0), 1.0, jobs)
    return drawn


def market_s(sizes_s: Floats, power: float, devices: int) -> float:
    """Return the mean completion time of the same jobs with the market, in rounds."""
    cluster = Cluster("one", (NodeGroup("v100", devices // PER_NODE, "V100", PER_NODE),))
    jobs = Workload.of(
        "hesrpt", np.full(len(sizes_s), ROUND_S - JUST_S), sizes_s, 1,
        model=0, models=("cifar10:512",), device=0, device_names=("V100",), least=1, most=2,
    )  # fmt: skip
    effects = Effects(restart_s=(0.0, 0.0, 0.0), network=False)
    tuning = Tuning((MARKET,), Preset("fifo", "", Knobs()), ROUND_S, between=False)
    twin = Twin(cluster, jobs, Knobs(), effects, tuning=tuning)
    ranges, points = records(len(twin.state.ranges), RANGE), records(devices, POINT)
    ranges["least"], ranges["most"] = 1, devices
    points["packed"] = points["spread"] = np.arange(1, devices + 1) ** power
    twin.state = twin.state._replace(ranges=ranges, points=points, guesses=points)
    twin.run()
    took_us = twin.state.runs["end_us"] - twin.state.jobs["submit_us"]
    return float(took_us.mean()) / US_PER_S


def gap_pct(power: float, seed: int, jobs: int = JOBS, devices: int = DEVICES) -> float:
    """Return by how many percent the market's mean completion exceeds the optimum."""
    sizes_s = sizes(jobs, seed)
    return 100.0 * (market_s(sizes_s, power, devices) / optimum_s(sizes_s, power, devices) - 1.0)


def rows(progress: Callable[[str], None]) -> list[Row]:
    """Measure the rows of `flyball bench tune` about the known optimum."""
    out = []
    for power in POWERS:
        progress(f"{JOBS} jobs on {DEVICES:,} devices, speed k^{power:g}")
        gaps = [gap_pct(power, seed) for seed in range(SEEDS)]
        case = f"{JOBS} jobs at once, speed k^{power:g}"
        row = tuning_row(case, None, "optimum", "completion above the optimum, %", mean_95(gaps))
        out.append({**row, "bar": BAR})
    return out
