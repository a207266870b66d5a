"""Draws training problems: clusters, loads, quality of estimates, restart costs, signals, goals.

    problem = draw_problem(Domain(), np.random.default_rng(1))

Nothing that is held out of training (`data/held_out.yaml`) is ever drawn: seeds of workloads begin
after the held-out ones, and a cluster of a held-out shape is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.errors import BadInput
from flyball.core.signals import DAY_US, FIRST_MONDAY_US, HOUR_US, DayAhead, Signal
from flyball.core.workload import Workload
from flyball.learn.env.spaces import PRIORITIES, Floats
from flyball.twin.generate import generate, preset
from flyball.twin.generate.settings import BY_SIZE
from flyball.twin.inputs.held_out import held_out, refuse_cluster, refuse_seeds

Span = tuple[float, float]
DEVICES = ("H100", "A100", "V100", "P100", "T4", "K80", "RTX2080Ti", "A40")
LEAST_MEMORY_GIB = 10.0
"""Memory of a job at most, so that every drawn cluster can hold it."""
MOSTLY_SHORT = 0.9
SIGNAL_WEEKS = 8
"""Length of a drawn series; four weeks of it lie before time 0, so that forecasts have errors."""


@dataclass(frozen=True)
class Domain:
    """Ranges that problems are drawn from, evenly unless it says otherwise.

    Attributes:
        groups: kinds of nodes in a cluster.
        nodes: of each kind.
        devices: in a node, one of these.
        presets: of the generator, one of these.
        models: part of the problems in which every job trains a model with measured speeds.
        short: part of the problems in which nine jobs in ten are short.
        jobs: in a workload.
        load: offered on the reference device.
        sigma: spread of the errors of estimates.
        restart_s: set-up time of a restart, on a logarithmic scale.
        checkpoint_s: at most; half of the problems have none.
        price, carbon: part of the problems that have such a signal.
        beta, gamma: weights of energy efficiency and balance beside a throughput of 1.
        max_duration_s: longest job.
    """

    groups: tuple[int, int] = (1, 6)
    nodes: tuple[int, int] = (1, 6)
    devices: tuple[int, ...] = (2, 4, 8)
    presets: tuple[str, ...] = ("mixed", "philly-like", "helios-like")
    models: float = 0.2
    short: float = 0.2
    jobs: tuple[int, int] = (300, 700)
    load: Span = (0.4, 1.3)
    sigma: Span = (0.0, 1.4)
    restart_s: Span = (5.0, 300.0)
    checkpoint_s: float = 45.0
    price: float = 0.75
    carbon: float = 0.4
    beta: Span = (0.5, 1.5)
    gamma: Span = (0.0, 0.1)
    max_duration_s: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("groups", "nodes", "jobs", "load", "sigma", "restart_s", "beta", "gamma"):
            low, high = getattr(self, name)
            if not 0 <= low <= high:
                raise BadInput(f"domain {name} = {low}..{high} is not a range", "use low <= high")


@dataclass(frozen=True)
class Problem:
    """A run of the twin to learn on.

    Attributes:
        cluster: with its signals.
        workload: the jobs.
        effects: what the twin simulates.
        priorities: a number per entry of `spaces.PRIORITIES`.
        seed: of the workload and the effects.
    """

    cluster: Cluster
    workload: Workload
    effects: Effects
    priorities: Floats
    seed: int


def draw_problem(
    domain: Domain, rng: np.random.Generator, workload_seed: int | None = None
) -> Problem:
    """Draw a problem.

    Args:
        domain: what to draw from.
        rng: of everything but the workload's jobs and the effects' draws.
        workload_seed: of these; None = drawn, beyond the held-out ones.

    Raises:
        BadInput: the seed is held out.
    """
    if workload_seed is None:
        workload_seed = held_out().first_training_seed + int(rng.integers(1 << 30))
    refuse_seeds([workload_seed])
    cluster = draw_cluster(domain, rng)
    price = draw_price(rng) if rng.random() < domain.price else None
    carbon = draw_carbon(rng) if rng.random() < domain.carbon else None
    cluster = replace(cluster, price=price, carbon=carbon, currency="EUR" if price else "")
    effects = Effects(
        estimate_sigma=float(rng.uniform(*domain.sigma)),
        restart_s=(float(np.exp(rng.uniform(*np.log(domain.restart_s)))),) * 3,
        checkpoint_s=float(rng.uniform(0.0, domain.checkpoint_s)) if rng.random() < 0.5 else 0.0,
        elastic=False,
        seed=workload_seed,
    )
    return Problem(
        cluster,
        draw_workload(domain, rng, cluster, workload_seed),
        effects,
        draw_priorities(domain, rng, price is not None, carbon is not None),
        workload_seed,
    )


def draw_cluster(domain: Domain, rng: np.random.Generator) -> Cluster:
    """Draw nodes; a shape that is held out is drawn again."""
    while True:
        count = int(rng.integers(domain.groups[0], domain.groups[1] + 1))
        kinds = rng.choice(len(DEVICES), size=count, replace=False)
        groups = tuple(
            NodeGroup(
                f"g{at}",
                int(rng.integers(domain.nodes[0], domain.nodes[1] + 1)),
                DEVICES[kind],
                int(rng.choice(domain.devices)),
            )
            for at, kind in enumerate(kinds.tolist())
        )
        cluster = Cluster("drawn", groups)
        try:
            refuse_cluster(cluster, "a drawn cluster")
        except BadInput:
            continue
        return cluster


def draw_workload(
    domain: Domain, rng: np.random.Generator, cluster: Cluster, seed: int
) -> Workload:
    """Draw jobs that fit the cluster, at a drawn load."""
    settings = preset(domain.presets[int(rng.integers(len(domain.presets)))])
    largest = max(min(group.count, 2) * group.devices for group in cluster.groups)
    count = sum(size <= largest for size in settings.sizes)
    cut: dict[str, Any] = {name: getattr(settings, name)[:count] for name in ("sizes", *BY_SIZE)}
    if rng.random() < domain.models:
        cut |= {"model_share": 1.0, "fraction_share": 0.0}
    if rng.random() < domain.short:
        cut["short_share"] = (MOSTLY_SHORT,) * count
    total = sum(cut["size_share"])
    cut["size_share"] = tuple(share / total for share in cut["size_share"])
    settings = replace(
        settings,
        **cut,
        max_duration_s=domain.max_duration_s,
        memory_max_gib=min(settings.memory_max_gib, LEAST_MEMORY_GIB),
    )
    jobs = int(rng.integers(domain.jobs[0], domain.jobs[1] + 1))
    load = float(rng.uniform(*domain.load))
    return generate(settings, seed, jobs=jobs, load=load, devices=cluster.device_count)


def draw_priorities(domain: Domain, rng: np.random.Generator, price: bool, carbon: bool) -> Floats:
    """Draw goals: weights, shares of the cost, multipliers of constraints."""
    values = dict.fromkeys(PRIORITIES, 0.0)
    values["alpha"] = 1.0
    values["beta"] = float(rng.uniform(*domain.beta))
    values["gamma"] = float(rng.uniform(*domain.gamma))
    share = float(rng.uniform()) if price and carbon else float(price)
    values["money"], values["carbon"] = share, (1.0 - share if carbon else 0.0)
    return np.array([values[name] for name in PRIORITIES])


# Signals ------------------------------------------------------------------------------


def draw_price(rng: np.random.Generator) -> Signal:
    """Draw an hourly price of a day-ahead market: two peaks, a dip at noon, noise that lasts."""
    hours = np.arange(SIGNAL_WEEKS * 7 * 24, dtype=np.float64)
    day = hours % 24
    swing, dip = rng.uniform(0.1, 0.8), rng.uniform(0.0, 0.8)
    shape = 1.0 + swing * (_bump(day, 8.0, 2.0) + 1.3 * _bump(day, 19.0, 2.5))
    shape -= dip * _bump(day, 13.0, 2.5) + rng.uniform(0.1, 0.4) * _bump(day, 3.0, 3.0)
    shape *= np.where(hours // 24 % 7 >= 5, rng.uniform(0.7, 1.0), 1.0)
    values = 0.01 + 0.11 * np.maximum(0.05, shape * np.exp(_lasting(rng, len(hours), 0.12)))
    return _series("drawn price", values, DayAhead())


def draw_carbon(rng: np.random.Generator) -> Signal:
    """Draw an hourly carbon intensity: a solar dip, wind that lasts days; known until now only."""
    hours = np.arange(SIGNAL_WEEKS * 7 * 24, dtype=np.float64)
    shape = 1.0 - rng.uniform(0.1, 0.6) * _bump(hours % 24, 13.0, 3.0)
    shape += rng.uniform(0.0, 0.3) * _bump(hours % 24, 20.0, 3.0)
    values = rng.uniform(150.0, 600.0) * shape * np.exp(_lasting(rng, len(hours), 0.25))
    return _series("drawn carbon intensity", np.maximum(10.0, values), 0)


def _bump(day: Floats, centre: float, width: float) -> Floats:
    apart = np.abs(day - centre)
    apart = np.minimum(apart, 24.0 - apart)
    return np.asarray(np.exp(-0.5 * (apart / width) ** 2))


def _lasting(rng: np.random.Generator, count: int, spread: float) -> Floats:
    """Return noise of which 95 % is left after an hour."""
    keep = 0.95
    noise = rng.normal(0.0, spread * np.sqrt(1 - keep**2), count)
    noise[0] = rng.normal(0.0, spread)
    for at in range(1, count):
        noise[at] += keep * noise[at - 1]
    return noise


def _series(name: str, values: Floats, known_ahead: int | DayAhead) -> Signal:
    begin_us = FIRST_MONDAY_US - SIGNAL_WEEKS // 2 * 7 * DAY_US
    times = begin_us + HOUR_US * np.arange(len(values), dtype=np.int64)
    return Signal.series(name, times, values, FIRST_MONDAY_US, known_ahead)
