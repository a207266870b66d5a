"""Cost of stepping a twin as a learner does: other knobs and an observation every half hour.

The same twins run once in one go and once in steps of 30 virtual minutes, in one thread, in turn;
the least CPU time of a few repeats counts. The knobs that are set differ too little to change a
decision, so both runs handle the same events; pending jobs get new keys all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from flyball.bench.figure import Bar, Figure
from flyball.bench.saturated import TwinCase, count_events, saturated
from flyball.core.knobs import Knobs
from flyball.core.units import S_PER_HOUR, to_us
from flyball.schedule.policies.registry import get_policy
from flyball.twin.stepping.many import step_many
from flyball.twin.stepping.rows import KnobRows
from flyball.twin.twin import Twin

Note = Callable[[str], None]
REPEATS = 25
"""Repeats of a run; it takes some 0.1 s, and other work on the machine can only slow it down."""
PAIRS = 5
"""Pairs of runs on one thread and on two."""
STEP_US = to_us(S_PER_HOUR / 2)
MOST_COST_PERCENT = 10.0
MOST_GROWTH = 1.5
"""Bar on the cost of a fork with the most jobs over that with the fewest."""
POLICIES = ("fifo-skip", "tuned")
SIZES = {"64 GPUs": (8, 50, 3_000, 32), "1,000 nodes": (1_000, 1_000, 30_000, 2)}
"""Nodes, pending jobs, further jobs and twins in a batch."""
TINY = 1e-12
"""Difference of ageing that changes keys but no decision."""
WORKLOADS = (20_000, 100_000, 500_000)
FORK_AHEAD_US = to_us(S_PER_HOUR)
STEPS = len(POLICIES) * len(SIZES) + 1 + len(WORKLOADS)
"""Number of times that `run` reports progress."""


def run(note: Note, done: Note = lambda _step: None) -> dict[str, Any]:
    """Measure the cost of steps, the speed-up of two threads and the cost of forks."""
    note("steps of 30 virtual minutes")
    rates = []
    for size in SIZES:
        for policy in POLICIES:
            rates.append(measure(size, policy))
            done(f"{policy}, {size}")
    speedup = thread_speedup()
    done("two threads")
    note("forks")
    forks = []
    for jobs in WORKLOADS:
        forks.append(fork_cost(jobs))
        done(f"fork of {jobs:,} jobs")
    return {"stepping": {"rates": rates, "two_threads": speedup, "forks": forks}}


def figures(result: dict[str, Any]) -> list[Figure]:
    """Return what `run` measured as figures."""
    part = result["stepping"]
    shown = []
    for row in part["rates"]:
        name = f"{row['size']}, {row['policy']}, {row['pending_mean']:,.0f} pending"
        per_step = f"{row['events_per_step']:,.0f} events a step"
        shown += [
            Figure(f"{name}: in one go", row["plain_events_per_s"], "events/CPU-s"),
            Figure(f"{name}: in steps, {per_step}", row["stepped_events_per_s"], "events/CPU-s"),
            Figure(
                f"{name}: cost of steps", row["cost_percent"], "%", Bar.at_most(MOST_COST_PERCENT)
            ),
        ]
    threads = part["two_threads"]
    shown.append(Figure("two threads over one, wall time", threads["speedup"], "x"))
    shown.append(Figure("cores that the two threads got", threads["cores"]))
    forks = part["forks"]
    for row in forks:
        name = f"{row['jobs']:,} jobs, {row['active']:,} active"
        shown.append(Figure(f"fork, {name}, {row['held']:,} held", row["fork_us"], "us"))
        shown.append(Figure(f"clone, {name}", row["clone_us"], "us"))
    growth = forks[-1]["fork_us"] / forks[0]["fork_us"]
    most = f"{forks[-1]['jobs']:,} over {forks[0]['jobs']:,} jobs"
    shown.append(Figure(f"fork: {most}", growth, "x", Bar.at_most(MOST_GROWTH)))
    return shown


def measure(size: str, policy: str) -> dict[str, Any]:
    """Return events per CPU-second in one go and in steps, and what the steps cost."""
    nodes, pending, jobs, twins = SIZES[size]
    knobs = get_policy(policy).knobs
    problems = [
        saturated(TwinCase(size, nodes, pending, jobs, knobs), seed) for seed in range(twins)
    ]
    end_us = min(int(workload.submit_us[-1]) for _, workload in problems) // STEP_US * STEP_US
    originals = [Twin(cluster, workload, knobs) for cluster, workload in problems]
    for twin in originals:
        twin.run(0)
    first = sum(count_events(twin) for twin in originals)
    events, seconds, lengths = [0, 0], [float("inf"), float("inf")], [0.0]
    run_in_steps([twin.clone() for twin in originals], knobs, STEP_US)  # compiles
    for _ in range(REPEATS):
        plain, stepped = ([twin.clone() for twin in originals] for _ in range(2))
        began = time.process_time()
        for twin in plain:
            twin.run(end_us)
        middle = time.process_time()
        lengths = run_in_steps(stepped, knobs, end_us)
        spent = (middle - began, time.process_time() - middle)
        seconds = [min(pair) for pair in zip(seconds, spent, strict=True)]
        events = [sum(map(count_events, batch)) - first for batch in (plain, stepped)]
    rates = [count / least for count, least in zip(events, seconds, strict=True)]
    return {
        "size": size,
        "policy": policy,
        "twins": twins,
        "pending_mean": float(np.mean(lengths)),
        "events_per_step": events[1] / (twins * (end_us // STEP_US)),
        "plain_events_per_s": rates[0],
        "stepped_events_per_s": rates[1],
        "cost_percent": 100.0 * (rates[0] / rates[1] - 1.0),
    }


def run_in_steps(twins: list[Twin], knobs: Knobs, end_us: int, threads: int = 1) -> list[float]:
    """Step to the end with knobs set at every step; return the pending jobs of a twin by step."""
    lengths = []
    rows = [
        KnobRows(knobs, ("ageing",), [[knobs.ageing + TINY * odd]] * len(twins)) for odd in range(2)
    ]
    for at, until_us in enumerate(range(STEP_US, end_us + 1, STEP_US)):
        step_many(twins, rows[at % 2], until_us, threads=threads)
        lengths.append(float(twins[0].state.clock["pending"][0]))
    return lengths


def thread_speedup() -> dict[str, float]:
    """Return how much faster steps are on two threads than on one, and the cores these got.

    By wall time, the median of pairs: on a machine with other work it means little, which the
    number of cores shows.
    """
    nodes, pending, jobs, _ = SIZES["64 GPUs"]
    knobs = get_policy("tuned").knobs
    case = TwinCase("threads", nodes, pending, jobs, knobs)
    problems = [saturated(case, seed) for seed in range(8)]
    originals = [Twin(*problem, knobs) for problem in problems for _ in range(2)]
    end_us = min(int(workload.submit_us[-1]) for _, workload in problems)
    ratios, cores = [], []
    for _ in range(PAIRS):
        spent_s = []
        for threads in (1, 2):
            twins = [twin.clone() for twin in originals]
            began, began_cpu = time.perf_counter(), time.process_time()
            run_in_steps(twins, knobs, end_us, threads=threads)
            spent_s.append(time.perf_counter() - began)
        cores.append((time.process_time() - began_cpu) / spent_s[1])
        ratios.append(spent_s[0] / spent_s[1])
    return {"speedup": float(np.median(ratios)), "cores": float(np.median(cores))}


def fork_cost(jobs: int) -> dict[str, Any]:
    """Return the time of a fork and of a clone in the middle of a workload of `jobs` jobs."""
    knobs = Knobs()
    filling = 1_000 * 8 // 2
    cluster, workload = saturated(TwinCase("fork", 1_000, 500, jobs - filling - 500, knobs))
    twin = Twin(cluster, workload, knobs)
    twin.run(int(workload.submit_us[-1]) // 2)
    fork = twin.fork(FORK_AHEAD_US)
    assert fork.part is not None
    clock = twin.state.clock[0]
    return {
        "jobs": len(workload),
        "active": int(clock.pending + clock.running),
        "held": len(fork.part.job_ids),
        "fork_us": _median_us(lambda: twin.fork(FORK_AHEAD_US), 100),
        "clone_us": _median_us(twin.clone, 15),
    }


def _median_us(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return 1e6 * float(np.median(times))
