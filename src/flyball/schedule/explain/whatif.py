"""What-if queries: runs the placement code again with a changed request of a job.

Nothing is decided and the state is not changed: the query uses copies of the job, its shape
and the clock, and the nodes as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.core.knobs import Knobs, Order
from flyball.core.state import State
from flyball.schedule import diagnose
from flyball.schedule.explain.wording import Names, counted
from flyball.schedule.nodes import GATHERED, WHOLE_NODES


@dataclass(frozen=True)
class Spot:
    """Holds where a job would go: a pool, and a node or (below 0) several nodes of it."""

    pool: int
    fit: int

    def text(self, state: State, names: Names) -> str:
        """Return `on a3`, or `over empty nodes of a`."""
        if self.fit >= 0:
            return f"on {names.node(state, self.fit)}"
        kind = "several" if self.fit == GATHERED else "empty"
        return f"over {kind} nodes of {names.group(self.pool)}"


def spot_of(state: State, job_id: int) -> Spot:
    """Return the place of a job that runs in this state."""
    run = state.runs[job_id]
    row = state.rows[int(run.first_row)]
    if int(row.next) < 0:
        return Spot(int(run.pool), int(row.node))
    in_whole_nodes = int(row.mask).bit_count() == int(state.pools[int(run.pool)].capacity)
    return Spot(int(run.pool), WHOLE_NODES if in_whole_nodes else GATHERED)


class PlacementProbe:
    """Tests whether one job would find a place now."""

    def __init__(self, state: State, knobs: Knobs, job_id: int, respect_head: bool) -> None:
        self._state, self._knobs, self._respect_head = state, knobs, respect_head
        self._job_id = job_id

    def place(
        self,
        *,
        respect_head: bool | None = None,
        within_budget: bool = True,
        knobs: dict[str, Any] | None = None,
        pools: int | None = None,
        on_host: bool = True,
        **request: Any,
    ) -> Spot | None:
        """Return where the job would start now, None if nowhere.

        Args:
            respect_head: overrides whether the reservation counts.
            within_budget: False lifts the power budget.
            knobs: changes of knobs.
            pools: other pools it may use, as a mask.
            on_host: False lifts its demand on hosts.
            request: changes of the job's fields.
        """
        copy = self._copy(within_budget, pools, request)
        if not on_host:
            copy.shapes.cpu_milli = copy.shapes.host_mib = 0
        packed = replace(self._knobs, **(knobs or {})).pack()
        respect = self._respect_head if respect_head is None else respect_head
        pool_id, fit = diagnose.find_now(copy, packed, 0, respect)
        return Spot(int(pool_id), int(fit)) if pool_id >= 0 else None

    def most_devices(self) -> tuple[int, Spot] | None:
        """Return the largest smaller gang that would find a place now, all else equal."""
        copy = self._copy(True, None, {})
        devices, pool_id, fit = diagnose.most_devices(
            copy, self._knobs.pack(), 0, self._respect_head
        )
        return (int(devices), Spot(int(pool_id), int(fit))) if devices else None

    def largest_share(self) -> tuple[int, Spot] | None:
        """Return the largest smaller share of each device that would find a place now."""
        low, high = 0, int(self._state.jobs[self._job_id].milli)
        best = None
        while high - low > 1:
            middle = (low + high) // 2
            spot = self.place(milli=middle)
            if spot is None:
                high = middle
            else:
                low, best = middle, (middle, spot)
        return best

    def figures(self, pool_id: int, cap: float | None = None, **request: Any) -> JobFigures:
        """Return what policies know of the job in a pool, perhaps with another cap or request."""
        knobs = self._knobs if cap is None else replace(self._knobs, cap=cap)
        values = diagnose.figures(self._copy(True, None, request), knobs.pack(), 0, pool_id)
        return JobFigures(*map(float, values))

    def _copy(self, within_budget: bool, pools: int | None, request: dict[str, Any]) -> State:
        state, at = self._state, self._job_id
        jobs: Any = state.jobs[at : at + 1].copy()
        shape_id = int(jobs[0].shape_id)
        shapes: Any = state.shapes[shape_id : shape_id + 1].copy()
        clock: Any = state.clock.copy()
        jobs.shape_id = 0
        for name, value in request.items():
            jobs[name] = value
        if pools is not None:
            shapes.pools = np.uint64(pools)
        if not within_budget:
            clock.budget_w = 0.0
        runs: Any = state.runs[at : at + 1].copy()
        memos: Any = state.memos[at : at + 1].copy() if len(state.memos) > 1 else state.memos
        if self._knobs.order == Order.HISTORY and memos[0].predicted_us == 0:
            memos.predicted_us = diagnose.prediction(state, at)  # it has not joined the queue yet
        scores = state.scores[:0]  # cached for the unchanged request only
        return state._replace(
            jobs=jobs, shapes=shapes, runs=runs, clock=clock, memos=memos, scores=scores
        )


@dataclass(frozen=True)
class JobFigures:
    """Holds what policies know of a job in a pool: key, estimated work left, rate, extra draw."""

    key_s: float
    left_us: float
    rate: float
    added_w: float

    @property
    def run_us(self) -> float:
        """Return the expected run time there."""
        return self.left_us / self.rate


def would_run(state: State, job_id: int, memory_mib: int) -> int:
    """Return the mask of pools that could run the job if it needed this much memory on a device."""
    job, mask = state.jobs[job_id], 0
    for pool_id, pool in enumerate(state.pools):
        rate = state.rates[int(job.profile) * len(state.pools) + pool_id]
        fraction = int(job.milli) < 1000
        room = int(pool.capacity) * (1 if fraction else int(pool.nodes))
        cpu_milli, host_mib = on_a_node(state, job_id, pool_id)
        hosted = cpu_milli <= pool.cpu_milli and host_mib <= pool.host_mib
        if rate.packed > 0 and memory_mib <= pool.memory_mib and job.devices <= room and hosted:
            mask |= 1 << pool_id
    return mask


def on_a_node(state: State, job_id: int, pool_id: int) -> tuple[int, int]:
    """Return the cores (thousandths) and memory (MiB) that the job needs of a host in a pool."""
    job, capacity = state.jobs[job_id], int(state.pools[pool_id].capacity)
    shape, devices = state.shapes[job.shape_id], int(job.devices)
    asked = int(shape.cpu_milli), int(shape.host_mib)
    if devices <= capacity:
        return asked
    cpu_milli, host_mib = (-(-amount * capacity // devices) for amount in asked)
    return cpu_milli, host_mib


def smaller_text(probe: PlacementProbe, state: State, names: Names, job_id: int, verb: str) -> str:
    """Return what a smaller request would bring: `ask for 4 devices instead of 8: ...`."""
    job = state.jobs[job_id]
    fewer = probe.most_devices()
    if fewer is not None:
        count, spot = fewer
        return (
            f"ask for {counted(count, names.unit)} instead of {job.devices}: with the same "
            f"estimate it would {verb} now {spot.text(state, names)}"
        )
    share = probe.largest_share() if job.milli < 1000 else None
    if share is not None:
        milli, spot = share
        return (
            f"ask for {milli / 1000:g} of a {names.unit} instead of {job.milli / 1000:g}: it would "
            f"{verb} now {spot.text(state, names)}"
        )
    return ""
