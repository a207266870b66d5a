"""The local phase: refines the caps of running jobs inside the strategy that a policy chose.

The policy chooses one cap for all jobs. Here each running job gets its own, by projected gradient
on

    J = alpha log(sum w T(c)) + beta log(sum k T(c) W(c))

over the caps c of all running jobs at once. T is a job's time left, W what it draws with its share
of the host, both from the twin's tables of caps, interpolated between levels. w is 1 plus the
waiting jobs that its devices hold up. k is what energy costs now over the mean of the coming day:
what is drawn while it is dear counts more. The logarithms make it the product that is judged: time
in the system times cost. The result is rounded to levels, and kept only if J is lower there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.records import ACTION, CAP_LEVELS, Records, records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.learn.env.spaces import PRIORITIES, Floats, Ints

STEPS = 60
"""Steps of the gradient."""
STEP = 2.0
"""Length of the first step, in levels of the job that moves most; later ones are shorter."""
POLISHED = 3
"""Times that levels are chosen anew at the prices of the last ones."""
ALPHA, BETA = PRIORITIES.index("alpha"), PRIORITIES.index("beta")


class Jobs(NamedTuple):
    """Holds the running jobs and what each cap would do to them, a row each, a column per level.

    Attributes:
        ids: of the jobs.
        time: time left.
        energy: what it takes until its end.
        weight: 1 plus the jobs that it holds up.
        level: the present cap.
    """

    ids: Ints
    time: Floats
    energy: Floats
    weight: Floats
    level: Ints


def running_jobs(state: State, now_us: int) -> Jobs:
    """Return the running jobs of a state."""
    runs, jobs = state.runs.view(np.ndarray), state.jobs.view(np.ndarray)
    ids = np.flatnonzero((runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0))
    run, job, pool = runs[ids], jobs[ids], runs["pool"][ids].astype(np.int64)
    pools = state.pools.view(np.ndarray)
    caps = state.caps.view(np.ndarray).reshape(len(pools), CAP_LEVELS)
    devices = run["devices"] * job["milli"] / MILLI_PER_DEVICE
    done_us = run["done_us"] + np.maximum(0, now_us - run["ready_us"]) * run["rate"]
    estimate_us = job["estimate_us"]
    outlived = np.maximum(done_us / estimate_us, 0.5)
    estimate_us = estimate_us * 2.0 ** np.maximum(0.0, np.floor(np.log2(outlived)) + 1.0)
    slowdown = caps["slowdown"][pool]
    now_slow = slowdown[np.arange(len(ids)), run["cap"]]
    left_us = np.maximum(1e6, (estimate_us - done_us) / run["rate"] / now_slow)
    draw_w = state.rates.view(np.ndarray)["watts"][job["profile"] * len(pools) + pool]
    host_w = pools["host_w"][pool] / pools["capacity"][pool]
    watts = devices[:, None] * (draw_w[:, None] * caps["power"][pool] + host_w[:, None])
    time = left_us[:, None] * slowdown
    total = float((pools["nodes"] * pools["capacity"]).sum())
    weight = 1.0 + int(state.clock[0].pending) * devices / total
    return Jobs(ids, time, time * watts, weight, run["cap"].astype(np.int64))


def refine(jobs: Jobs, floor: int, priorities: Floats, dear: float) -> Ints:
    """Return the level of each job, none weaker than that of the strategy.

    Args:
        jobs: the running ones.
        floor: level of the strategy's cap.
        priorities: see `spaces.PRIORITIES`.
        dear: cost of energy now over its mean of the coming day; 1 = not known.
    """
    start = np.full(len(jobs.ids), float(floor))
    if not len(start) or priorities[BETA] <= 0.0:
        return start.astype(np.int64)
    alpha, beta = float(priorities[ALPHA]), float(priorities[BETA]) * dear
    at = start.copy()
    for step in range(STEPS):
        slope = _slope(jobs, at, alpha, beta)
        largest = float(np.abs(slope).max())
        if largest <= 0.0:
            break
        length = STEP / (1.0 + step / 10.0) / largest
        at = np.clip(at - length * slope, floor, CAP_LEVELS - 1)
    best = start.astype(np.int64)
    for levels in _rounded(jobs, at, floor, alpha, beta):
        if objective(jobs, levels, alpha, beta) < objective(jobs, best, alpha, beta):
            best = levels
    return best


def _rounded(jobs: Jobs, at: Floats, floor: int, alpha: float, beta: float) -> Iterator[Ints]:
    """Yield levels near some caps, then each job's best level at the prices that these imply.

    Measured curves are not convex, so the gradient may end at a level beside a better one.
    """
    levels, rows = np.rint(at).astype(np.int64), np.arange(len(at))
    yield levels
    weighed = jobs.time * jobs.weight[:, None]
    for _ in range(POLISHED):
        time, energy = weighed[rows, levels].sum(), jobs.energy[rows, levels].sum()
        cost = alpha * weighed / time + beta * jobs.energy / energy
        levels = floor + cost[:, floor:].argmin(axis=1)
        yield levels


def objective(jobs: Jobs, levels: Ints, alpha: float, beta: float) -> float:
    """Return J at some levels."""
    rows = np.arange(len(levels))
    time = float((jobs.weight * jobs.time[rows, levels]).sum())
    return float(alpha * np.log(time) + beta * np.log(float(jobs.energy[rows, levels].sum())))


def _slope(jobs: Jobs, at: Floats, alpha: float, beta: float) -> Floats:
    """Return the gradient of J by the levels, taken as continuous."""
    low = np.minimum(np.floor(at).astype(np.int64), CAP_LEVELS - 2)
    part, rows = at - low, np.arange(len(at))

    def value_and_slope(table: Floats) -> tuple[Floats, Floats]:
        first, second = table[rows, low], table[rows, low + 1]
        return first + part * (second - first), second - first

    time, time_slope = value_and_slope(jobs.time * jobs.weight[:, None])
    energy, energy_slope = value_and_slope(jobs.energy)
    return np.asarray(
        alpha * time_slope / time.sum() + beta * energy_slope / energy.sum(), np.float64
    )


def cap_plan(state: State, now_us: int, floor: int, priorities: Floats, dear: float) -> Records:
    """Return the actions that put the running jobs under their own caps."""
    jobs = running_jobs(state, now_us)
    levels = refine(jobs, floor, priorities, dear)
    changed = np.flatnonzero(levels != jobs.level)
    plan: Any = records(len(changed), ACTION)
    plan["kind"], plan["node"] = int(ActionKind.CAP), -1
    plan["job"], plan["level"] = jobs.ids[changed], levels[changed]
    weaker = levels[changed] < jobs.level[changed]
    plan["reason"] = np.where(weaker, int(Reason.UNCAPPED), int(Reason.CAPPED))
    return plan  # type: ignore[no-any-return]
