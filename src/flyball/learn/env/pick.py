"""Picks jobs one by one in many twins at once: the compiled part of `Flyball/Pick-v0`.

    batch = PickBatch(64, PickSettings(), seed=1)
    jobs, clusters = batch.reset_all()
    step = batch.step(picks)

A pick names a waiting job. If it fits it starts where the kernel's place rule puts it; if not, time
passes until it does, and no other job starts meanwhile. Then time passes until a job waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Reason, Status
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs
from flyball.core.units import FOREVER_US, US_PER_S
from flyball.learn.env.problems import Domain, Problem, draw_problem
from flyball.learn.env.spaces import Ints, Vector
from flyball.physics.compile import entry, kernel
from flyball.schedule.order import expected_end
from flyball.schedule.place import find
from flyball.schedule.queue import remove
from flyball.schedule.start import start
from flyball.twin.kernel import advance, carry_out, next_instant
from flyball.twin.stepping.desk import open_desk, rows_of
from flyball.twin.stepping.observe import LOG_WEEK
from flyball.twin.twin import Twin

SLOTS = 128
"""Waiting jobs that a pick chooses among: those submitted first."""
JOB_NUMBERS = ("waits here", "time waited", "estimated run time", "devices asked for", "fits now")
CLUSTER_NUMBERS = ("free devices", "running jobs", "waiting jobs", "next release", "done")
OBJECTIVES = ("slowdown", "wait")
LEAST_RUN_US = 10.0 * US_PER_S
"""Run time below which a slowdown does not grow further, as is usual."""
PENDING, RUNNING = int(Status.PENDING), int(Status.RUNNING)
IN_ORDER = int(Reason.IN_ORDER)
UNKNOWN, NO, YES = 0, 1, 2
RULE = Knobs()
"""First come, first served, best fit; only its place rule is used."""


@dataclass(frozen=True)
class PickSettings:
    """Holds what an episode is like.

    Attributes:
        jobs: in an episode.
        objective: `slowdown` (mean bounded slowdown) or `wait` (mean wait in mean run times).
        problems: drawn once; episodes are begun from copies of them.
        domain: what they are drawn from; signals and goals play no part.
        threads: that step.
    """

    jobs: int = 256
    objective: str = "slowdown"
    problems: int = 32
    domain: Domain = field(default_factory=lambda: Domain(groups=(1, 1), nodes=(2, 16)))
    threads: int = 2

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise UnknownName("objective", self.objective, OBJECTIVES)
        if self.jobs < 2 or self.problems < 1:
            raise BadInput(
                f"{self.jobs} jobs and {self.problems} problems", "use 2 and 1 at the least"
            )


class PickStep(NamedTuple):
    """Holds what a pick brought, a row per run.

    Attributes:
        jobs: waiting jobs, a row per slot (`JOB_NUMBERS`).
        clusters: `CLUSTER_NUMBERS`.
        rewards: minus the objective's growth; an episode's sum is minus its mean.
        over: every job has started.
    """

    jobs: Vector
    clusters: Vector
    rewards: Vector
    over: npt.NDArray[np.bool_]


# Compiled -------------------------------------------------------------------------------


@kernel
def start_picked(state: Any, knobs: Any, job_id: int) -> bool:
    """Let time pass until a job fits, and start it; False if it never fits."""
    clock = state.clock[0]
    while True:
        now = clock.now_us
        pool_id, fit, avoid = find(state, knobs, job_id, False, now)
        if pool_id >= 0:
            break
        later = next_instant(state, knobs)
        if later >= FOREVER_US:
            return False
        advance(state, knobs, later)
    remove(state, job_id)
    clock.actions = 0
    start(state, knobs, job_id, pool_id, fit, avoid, now, IN_ORDER, 0.0)
    carry_out(state, knobs, now)
    clock.capacity_grew = 0
    return True


@kernel
def wait_for_jobs(state: Any, knobs: Any) -> bool:
    """Let time pass until a job waits; return whether none ever will."""
    clock = state.clock[0]
    while clock.pending == 0:
        if clock.next_job == len(state.jobs):
            return True
        advance(state, knobs, next_instant(state, knobs))
    return False


@kernel
def list_slots(state: Any, slots: Any) -> int:
    """Write the waiting jobs that were submitted first; return how many."""
    count, job_id = 0, 0
    last = state.clock[0].next_job
    while count < SLOTS and job_id < last:
        if state.runs[job_id].status == PENDING:
            slots[count] = job_id
            count += 1
        job_id += 1
    for at in range(count, SLOTS):
        slots[at] = -1
    return count


@kernel
def log_us(time_us: float) -> float:
    """Return log1p of a time in seconds, with a week as 1."""
    return math.log1p(max(0.0, time_us) / US_PER_S) / LOG_WEEK


@kernel
def look(state: Any, knobs: Any, slots: Any, fits: Any, jobs: Any, cluster: Any) -> None:
    """Write what is seen: the waiting jobs and the cluster."""
    clock = state.clock[0]
    now, devices, free = clock.now_us, 0.0, 0.0
    for pool_id in range(len(state.pools)):
        devices += state.pools[pool_id].nodes * state.pools[pool_id].capacity
    soonest = FOREVER_US
    for node_id in range(len(state.nodes)):
        node = state.nodes[node_id]
        free += node.free
        row_id = node.first_row
        while row_id >= 0:
            row = state.rows[row_id]
            soonest = min(soonest, expected_end(state.jobs[row.job], state.runs[row.job], now))
            row_id = row.sibling
    for shape_id in range(len(state.shapes)):
        fits[shape_id] = UNKNOWN
    count = list_slots(state, slots)
    for at in range(SLOTS):
        for number in range(len(JOB_NUMBERS)):
            jobs[at, number] = 0.0
    for at in range(count):
        job = state.jobs[slots[at]]
        if fits[job.shape_id] == UNKNOWN:
            pool_id, _fit, _avoid = find(state, knobs, slots[at], False, now)
            fits[job.shape_id] = YES if pool_id >= 0 else NO
        jobs[at, 0] = 1.0
        jobs[at, 1] = log_us(now - job.submit_us)
        jobs[at, 2] = log_us(job.estimate_us)
        jobs[at, 3] = job.devices * job.milli / 1000 / devices
        jobs[at, 4] = 1.0 if fits[job.shape_id] == YES else 0.0
    cluster[0] = free / devices
    cluster[1] = math.log1p(clock.running) / 10.0
    cluster[2] = math.log1p(clock.pending) / 10.0
    cluster[3] = log_us(soonest - now) if soonest < FOREVER_US else 0.0
    cluster[4] = clock.finished / len(state.jobs)


@kernel
def grown(state: Any, job_id: int, by_wait: bool, unit_us: float) -> float:
    """Return what a job that was just started adds to the objective's mean."""
    job, run = state.jobs[job_id], state.runs[job_id]
    wait_us = float(run.first_start_us - job.submit_us)
    if by_wait:
        return float(wait_us / unit_us / len(state.jobs))
    run_us = job.work_us / run.rate
    slowdown = (wait_us + run_us) / max(run_us, LEAST_RUN_US)
    return float(max(1.0, slowdown) / len(state.jobs))


@entry
def pick_block(
    rows: Any, block: Any, picks: Any, by_wait: bool, unit_us: Any, slots: Any, fits: Any,
    jobs: Any, clusters: Any, rewards: Any, over: Any,
) -> None:  # fmt: skip
    """Carry out the picks of a block of twins; a pick below 0 only looks.

    Args:
        rows: of the twins' desks.
        block: first and last row, the last excluded.
        picks: slots.
        by_wait: whether the objective is the wait.
        unit_us: the unit of waits, per twin.
        slots: the waiting jobs of each twin as last seen; rewritten.
        fits: room for a number per shape.
        jobs, clusters, rewards, over: become what is seen and gained.
    """
    for at in range(block[0], block[1]):
        state, packed, _ledger = open_desk(rows, at)
        knobs = packed[0]
        rewards[at] = 0.0
        if picks[at] >= 0:
            job_id = slots[at, picks[at]]
            if job_id < 0:
                job_id = slots[at, 0]  # an empty slot stands for the first
            if not start_picked(state, knobs, job_id):
                over[at] = True
                continue
            rewards[at] = -grown(state, job_id, by_wait, unit_us[at])
        over[at] = wait_for_jobs(state, knobs)
        look(state, knobs, slots[at], fits[at], jobs[at], clusters[at])


# Batches ----------------------------------------------------------------------------------


class PickBatch:
    """Runs episodes side by side.

    Attributes:
        settings: of the episodes.
        twins: of the running episodes.
    """

    def __init__(self, runs: int, settings: PickSettings, seed: int = 0) -> None:
        self.settings = settings
        self._rng = np.random.default_rng(seed)
        self.problems: list[Problem] = []
        self._starts: list[Twin] = []
        self.twins: list[Twin] = [None] * runs  # type: ignore[list-item]
        self._slots = np.full((runs, SLOTS), -1, np.int64)
        self._fits = np.zeros((runs, 0), np.int64)
        self._unit_us = np.ones(runs)
        self._jobs = np.zeros((runs, SLOTS, len(JOB_NUMBERS)), np.float32)
        self._clusters = np.zeros((runs, len(CLUSTER_NUMBERS)), np.float32)
        self._rewards = np.zeros(runs, np.float32)
        self._over = np.zeros(runs, np.bool_)
        self._pool = ThreadPoolExecutor(max(1, settings.threads), "pick")

    def __len__(self) -> int:
        return len(self.twins)

    def reseed(self, seed: int, workload_seed: int | None = None) -> None:
        """Draw other problems from a seed.

        Raises:
            BadInput: the jobs' seed is held out of training.
        """
        self._rng = np.random.default_rng(seed)
        self.problems, self._starts = [], []
        if workload_seed is not None:
            self._add_problem(workload_seed)

    def _add_problem(self, workload_seed: int | None = None) -> None:
        domain, jobs = self.settings.domain, self.settings.jobs
        domain = Domain(**{**domain.__dict__, "jobs": (jobs, jobs), "price": 0.0, "carbon": 0.0})
        problem = draw_problem(domain, self._rng, workload_seed)
        self.problems.append(problem)
        self._starts.append(Twin(problem.cluster, problem.workload, RULE, problem.effects))

    def reset_all(self) -> tuple[Vector, Vector]:
        """Begin every episode anew; return the observations."""
        for run in range(len(self)):
            self._begin(run)
        self._carry_out(np.full(len(self), -1, np.int64))
        return self._jobs.copy(), self._clusters.copy()

    def _begin(self, run: int) -> None:
        """Begin an episode of a run: a copy of one of the problems."""
        if not self._starts:
            for _ in range(self.settings.problems):
                self._add_problem()
        chosen = self._starts[int(self._rng.integers(len(self._starts)))]
        self.twins[run] = chosen.clone()
        self._unit_us[run] = float(chosen.state.jobs.work_us.mean())
        shapes = len(chosen.state.shapes)
        if shapes > self._fits.shape[1]:
            self._fits = np.zeros((len(self), shapes), np.int64)

    def step(self, picks: npt.ArrayLike) -> PickStep:
        """Carry out a pick in every run; one that is over begins anew in the same call.

        Args:
            picks: a slot per run.
        """
        wanted = np.asarray(picks, np.int64)
        if self.twins[0] is None:
            raise BadInput("no episode has begun", "call reset_all() first")
        if ((wanted < 0) | (wanted >= SLOTS)).any() or wanted.shape != (len(self),):
            raise BadInput("a pick is not a slot", f"use 0 to {SLOTS - 1}, one per run")
        self._carry_out(wanted)
        return PickStep(self._jobs, self._clusters, self._rewards.copy(), self._over.copy())

    def begin_over(self) -> None:
        """Begin another episode in every run that is over, and look at it."""
        over = np.flatnonzero(self._over)
        for run in over.tolist():
            self._begin(run)
        if len(over):
            self._carry_out(np.full(len(self), -1, np.int64), over)

    def _carry_out(self, picks: Ints, only: Ints | None = None) -> None:
        """Carry out picks in some runs, on all threads."""
        chosen = np.arange(len(self)) if only is None else only
        whole = only is None
        rows = rows_of([self.twins[run].desk for run in chosen.tolist()])

        def part(array: Any) -> Any:
            return array if whole else array[chosen]

        arrays = [part(a) for a in self._arrays()]
        slots, jobs, clusters, rewards, over = arrays
        units, fits = part(self._unit_us), part(self._fits)
        by_wait = self.settings.objective == "wait"

        def work(first: int, end: int) -> None:
            pick_block(
                rows, np.array([first, end]), part(picks), by_wait, units, slots, fits,
                jobs, clusters, rewards, over,
            )  # fmt: skip

        self._share(len(chosen), work)
        if not whole:
            kept = self._rewards.copy(), self._over.copy()
            for array, values in zip(self._arrays(), arrays, strict=True):
                array[chosen] = values
            self._rewards[:], self._over[:] = kept

    def _arrays(self) -> tuple[Any, ...]:
        return self._slots, self._jobs, self._clusters, self._rewards, self._over

    def _share(self, count: int, work: Callable[[int, int], None]) -> None:
        """Share twins among the threads; the calling one takes the last part."""
        threads = max(1, min(self.settings.threads, count))
        edges = [count * at // threads for at in range(threads + 1)]
        others = [self._pool.submit(work, first, end) for first, end in pairwise(edges[:-1])]
        work(edges[-2], edges[-1])
        for other in others:
            other.result()

    def masks(self) -> npt.NDArray[np.bool_]:
        """Return which slots hold a job, a row per run."""
        return np.asarray(self._jobs[:, :, 0] > 0)

    def seen(self) -> tuple[Vector, Vector]:
        """Return what is seen now, as views that the next step overwrites."""
        return self._jobs, self._clusters
