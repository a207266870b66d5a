"""The local phase: refines the caps of running jobs inside the strategy that a policy chose.

The policy chooses one cap for all jobs. Here each running job gets its own, by projected gradient
on

    J = a log(sum w T(c)) + log(sum T(c) W(c))

over the caps c of all running jobs at once. T is a job's time left, W what it draws with its share
of the host, both from the twin's tables of caps, interpolated between levels. w is 1 plus the
waiting jobs that its devices hold up. a is how much time matters beside energy *by the policy's own
choice*: with it no other cap for all would be better than the one that was chosen. So the policy
says what time is worth now, with all that it knows of price, load and queue, and this phase spends
it where it buys most. The result is rounded to levels, and kept only if J is lower there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.records import ACTION, CAP_LEVELS, Records, records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.learn.env.spaces import Floats, Ints

STEPS = 60
"""Steps of the gradient."""
STEP = 2.0
"""Length of the first step, in levels of the job that moves most; later ones are shorter."""
POLISHED = 3
"""Times that levels are chosen anew at the prices of the last ones."""
LEAST, MOST = 0.1, 100.0
"""Bounds of what time is worth beside energy."""


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


def refine(jobs: Jobs, chosen: int) -> Ints:
    """Return the level of each job.

    Args:
        jobs: the running ones.
        chosen: level of the cap that the policy chose for all; 0 = none, and none is set here.
    """
    start = np.full(len(jobs.ids), chosen, np.int64)
    if not len(start) or chosen == 0:
        return start
    worth, at = worth_of_time(jobs, chosen), start.astype(float)
    for step in range(STEPS):
        slope = _slope(jobs, at, worth)
        largest = float(np.abs(slope).max())
        if largest <= 0.0:
            break
        length = STEP / (1.0 + step / 10.0) / largest
        at = np.clip(at - length * slope, 0, CAP_LEVELS - 1)
    best = start
    for levels in _rounded(jobs, at, worth):
        if objective(jobs, levels, worth) < objective(jobs, best, worth):
            best = levels
    return best


def worth_of_time(jobs: Jobs, chosen: int) -> float:
    """Return the weight of time beside energy at which one cap for all is best at a level."""
    low, high = max(0, chosen - 1), min(CAP_LEVELS - 1, chosen + 1)
    weighed = jobs.time * jobs.weight[:, None]
    slower = float(np.log(weighed[:, high].sum() / weighed[:, low].sum()))
    saved = float(np.log(jobs.energy[:, low].sum() / jobs.energy[:, high].sum()))
    return min(max(saved / max(slower, 1e-6), LEAST), MOST)


def _rounded(jobs: Jobs, at: Floats, worth: float) -> Iterator[Ints]:
    """Yield levels near some caps, then each job's best level at the prices that these imply.

    Measured curves are not convex, so the gradient may end at a level beside a better one.
    """
    levels, rows = np.rint(at).astype(np.int64), np.arange(len(at))
    yield levels
    weighed = jobs.time * jobs.weight[:, None]
    for _ in range(POLISHED):
        time, energy = weighed[rows, levels].sum(), jobs.energy[rows, levels].sum()
        levels = (worth * weighed / time + jobs.energy / energy).argmin(axis=1)
        yield levels


def objective(jobs: Jobs, levels: Ints, worth: float) -> float:
    """Return J at some levels."""
    rows = np.arange(len(levels))
    time = float((jobs.weight * jobs.time[rows, levels]).sum())
    return float(worth * np.log(time) + np.log(float(jobs.energy[rows, levels].sum())))


def _slope(jobs: Jobs, at: Floats, worth: float) -> Floats:
    """Return the gradient of J by the levels, taken as continuous."""
    low = np.minimum(np.floor(at).astype(np.int64), CAP_LEVELS - 2)
    part, rows = at - low, np.arange(len(at))

    def value_and_slope(table: Floats) -> tuple[Floats, Floats]:
        first, second = table[rows, low], table[rows, low + 1]
        return first + part * (second - first), second - first

    time, time_slope = value_and_slope(jobs.time * jobs.weight[:, None])
    energy, energy_slope = value_and_slope(jobs.energy)
    return np.asarray(worth * time_slope / time.sum() + energy_slope / energy.sum(), np.float64)


def cap_plan(state: State, now_us: int, chosen: int) -> Records:
    """Return the actions that put the running jobs under their own caps."""
    jobs = running_jobs(state, now_us)
    levels = refine(jobs, chosen)
    changed = np.flatnonzero(levels != jobs.level)
    plan: Any = records(len(changed), ACTION)
    plan["kind"], plan["node"] = int(ActionKind.CAP), -1
    plan["job"], plan["level"] = jobs.ids[changed], levels[changed]
    weaker = levels[changed] < jobs.level[changed]
    plan["reason"] = np.where(weaker, int(Reason.UNCAPPED), int(Reason.CAPPED))
    return plan  # type: ignore[no-any-return]
