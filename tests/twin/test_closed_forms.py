"""The twin against queueing theory: where mean waits are known exactly, it must find them.

Each case runs independent replications over fixed seeds, leaves out the first part of each
(the queue begins empty) and asks that theory lies in the 99 % confidence interval of the mean.
The interval must be narrow as well, or the test would show nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, stats

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.workload import Workload
from flyball.schedule.policies.registry import get_policy
from flyball.twin.twin import Twin

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]

MEAN_S = 1_000.0
"""Mean service time: a round of 2 s is small against it."""
WARM_UP = 0.2
NO_COST = Effects(restart_s=(0.0, 0.0, 0.0))


def exponential(rng: np.random.Generator, size: int) -> Floats:
    return rng.exponential(MEAN_S, size)


def constant(rng: np.random.Generator, size: int) -> Floats:
    return np.full(size, MEAN_S)


SIGMA = 0.8


def log_normal(rng: np.random.Generator, size: int) -> Floats:
    return rng.lognormal(math.log(MEAN_S) - SIGMA**2 / 2, SIGMA, size)


def replicate(
    servers: int, load: float, service: Draw, knobs: Knobs, runs: int, jobs: int
) -> tuple[Floats, Floats]:
    """Mean wait and mean response (s) of each replication, after its warm-up."""
    cluster = Cluster("servers", (NodeGroup("n", servers, "V100", 1),))
    waits, responses = np.empty(runs), np.empty(runs)
    for seed in range(runs):
        rng = np.random.default_rng([servers, seed])
        gap_s = rng.exponential(MEAN_S / (load * servers), jobs)
        workload = Workload.of("poisson", np.cumsum(gap_s), service(rng, jobs))
        twin = Twin(cluster, workload, knobs, NO_COST)
        twin.run()
        measured = slice(int(WARM_UP * jobs), None)
        submit_us = workload.submit_us[measured]
        waits[seed] = (twin.state.runs.first_start_us[measured] - submit_us).mean() / 1e6
        responses[seed] = (twin.state.runs.end_us[measured] - submit_us).mean() / 1e6
    return waits, responses


def assert_in_interval(means: Floats, theory: float, narrow: float) -> None:
    """Theory is in the 99 % interval, and the interval is within `narrow` of it."""
    half = stats.t.ppf(0.995, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means))
    assert half < narrow * theory
    assert abs(means.mean() - theory) < half


def erlang_wait_s(servers: int, load: float) -> float:
    """Mean wait of M/M/c by Erlang's C formula."""
    offered = servers * load
    blocked = offered**servers / math.factorial(servers) / (1 - load)
    others = sum(offered**k / math.factorial(k) for k in range(servers))
    return blocked / (others + blocked) * MEAN_S / (servers * (1 - load))


def srpt_response_s(load: float) -> float:
    """Mean response of M/M/1 under preemptive SRPT (Schrage and Miller 1966)."""
    rate, step = load, 0.001  # time in units of the mean service
    x = np.arange(0.0, 40.0, step)
    density = np.exp(-x)
    below = load_below(rate, x)
    second = 2 - density * (x**2 + 2 * x + 2)  # of service times up to x
    residence = integrate.cumulative_trapezoid(1 / (1 - below), x, initial=0.0)
    waiting = rate * (second + x**2 * density) / (2 * (1 - below) ** 2)
    return float(integrate.trapezoid((residence + waiting) * density, x)) * MEAN_S


def load_below(rate: float, x: Floats) -> Floats:
    """Load of the jobs no longer than x."""
    return rate * (1 - np.exp(-x) * (1 + x))


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (4, 0.8), (20, 0.8)])
def test_mmc_wait_is_erlangs(servers: int, load: float) -> None:
    waits, _ = replicate(servers, load, exponential, get_policy("fifo").knobs, 25, 20_000)
    assert_in_interval(waits, erlang_wait_s(servers, load), narrow=0.15)


@pytest.mark.parametrize(
    ("service", "variation"),
    [(constant, 0.0), (exponential, 1.0), (log_normal, math.exp(SIGMA**2) - 1)],
)
def test_mg1_wait_is_pollaczek_and_khinchines(service: Draw, variation: float) -> None:
    load = 0.7
    theory = load * MEAN_S * (1 + variation) / (2 * (1 - load))
    waits, _ = replicate(1, load, service, get_policy("fifo-skip").knobs, 25, 20_000)
    assert_in_interval(waits, theory, narrow=0.06)


def test_srpt_response_is_schrage_and_millers() -> None:
    load = 0.7
    knobs = get_policy("srtf").knobs.with_settings(["round_s=2", "margin_s=0"])
    _, responses = replicate(1, load, exponential, knobs, 30, 3_000)
    theory = srpt_response_s(load)
    assert theory < MEAN_S / (1 - load)  # first come first served in the same queue
    assert_in_interval(responses, theory, narrow=0.04)


def test_shortest_first_without_preemption_lies_between() -> None:
    # Not preempting costs, not ordering costs more: SRPT < SJF < FIFO, each by a wide margin.
    load, means = 0.8, []
    for name in ("srtf", "sjf", "fifo"):
        knobs = get_policy(name).knobs
        if name == "srtf":
            knobs = knobs.with_settings(["round_s=10", "margin_s=0"])
        means.append(replicate(1, load, exponential, knobs, 5, 5_000)[1].mean())
    assert means[0] < 0.9 * means[1] < 0.9 * 0.9 * means[2]
