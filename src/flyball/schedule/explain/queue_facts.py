"""Facts about the queue and the cluster that explanations share, computed once on demand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.accounts import own_rows
from flyball.core.codes import ActionKind, Status
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt, Span
from flyball.core.records import Records
from flyball.core.state import State, clone
from flyball.core.units import FOREVER_US, MILLI_PER_DEVICE, to_us
from flyball.schedule import diagnose
from flyball.schedule.explain.whatif import PlacementProbe, Spot, spot_of, would_run
from flyball.schedule.explain.wording import Names

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Room:
    """Counts the devices that a job could run on, and those that could serve it now.

    Attributes:
        total: devices of the pools, including those of nodes that are down.
        free: of these, free for the job.
        most_in_pool, most_on_node: the most free in one pool and on one node.
        nodes, empty: nodes of the pools, and how many of them are wholly free.
        down: indices of the nodes that are down.
        outside: devices that jobs have which are not in the queue.
        short_of_memory: devices with a large enough share free, but not the memory.
        could_hold: whether the nodes that are up could hold the job if they were idle.
    """

    total: int
    free: int
    most_in_pool: int
    most_on_node: int
    nodes: int
    empty: int
    down: tuple[int, ...]
    outside: int
    short_of_memory: int
    could_hold: bool


@dataclass(frozen=True)
class Account:
    """Holds a tenant's account and the request of one of its jobs, in thousandths of a device."""

    name: str
    asks_milli: int
    used_milli: int
    quota_milli: int
    limit_milli: int
    level: float

    @property
    def borrows(self) -> bool:
        """Return whether the job would go beyond the quota."""
        return self.used_milli + self.asks_milli > self.quota_milli


class QueueFacts:
    """Derives facts from one state right after a decision, each once on demand."""

    def __init__(self, state: State, knobs: Knobs, names: Names) -> None:
        self.state, self.knobs, self.names = state, knobs, names
        self.now_us = int(state.clock[0].now_us)
        self._packed = knobs.pack()
        self._rooms: dict[int, Room] = {}
        self._earliest: dict[tuple[int, int], int] = {}

    # The queue ----------------------------------------------------------------

    @cached_property
    def _keys_and_ends(self) -> tuple[npt.NDArray[np.float64], Ints]:
        keys = np.full(len(self.state.jobs), np.nan)
        ends = np.full(len(self.state.jobs), FOREVER_US, np.int64)
        diagnose.list_keys(self.state, self._packed, keys, ends)
        return keys, ends

    @property
    def keys(self) -> npt.NDArray[np.float64]:
        """Return the key of every job that is pending or running."""
        return self._keys_and_ends[0]

    @cached_property
    def keys_then(self) -> npt.NDArray[np.float64]:
        """Return the key of every job that is pending or running, at the next round."""
        clock: Any = self.state.clock.copy()
        clock.now_us = self.next_round_us
        keys = np.full(len(self.state.jobs), np.nan)
        ends = np.zeros(len(self.state.jobs), np.int64)
        diagnose.list_keys(self.state._replace(clock=clock), self._packed, keys, ends)
        return keys

    @property
    def ends(self) -> Ints:
        """Return when each running job is expected to end."""
        return self._keys_and_ends[1]

    @cached_property
    def order(self) -> Ints:
        """Return the pending jobs, first to last."""
        pending = np.flatnonzero(self.state.runs.status == Status.PENDING)
        ranks = [pending, self.keys[pending]]
        if self.knobs.order == Order.FAIR:
            accounts = [self.account(int(job_id)) for job_id in pending]
            ranks.append(np.array([account.level for account in accounts]))
            ranks.append(np.array([account.borrows for account in accounts]))
        return pending[np.lexsort(ranks)]

    @property
    def reclaims(self) -> bool:
        """Return whether rounds take borrowed devices back."""
        return self.knobs.order == Order.FAIR and self.knobs.preempt == Preempt.ROUNDS

    @cached_property
    def tenants(self) -> Records:
        """Return the accounts of the tenants."""
        return own_rows(self.state.tenants, len(self.state.pools))

    @cached_property
    def _levels(self) -> npt.NDArray[np.float64]:
        levels = np.zeros(len(self.tenants))
        diagnose.list_levels(self.state, self._packed, levels)
        return levels

    def account(self, job_id: int) -> Account:
        """Return the account of a job's tenant, with the job's request."""
        job = self.state.jobs[job_id]
        tenant: Any = self.tenants[int(job.tenant)]  # -1 is the last
        return Account(
            self.names.tenant(int(job.tenant)),
            int(job.devices) * int(job.milli),
            int(tenant.used_milli),
            int(tenant.quota_milli),
            int(tenant.limit_milli),
            float(self._levels[int(job.tenant)]),
        )

    @cached_property
    def _place_of(self) -> dict[int, int]:
        return {int(job_id): place for place, job_id in enumerate(self.order, 1)}

    def place_of(self, job_id: int) -> int:
        """Return the job's place in the queue, from 1."""
        return self._place_of[job_id]

    @property
    def head(self) -> int:
        """Return the first pending job, or -1."""
        return int(self.order[0]) if len(self.order) else -1

    @cached_property
    def _scanned(self) -> set[int] | None:
        """Return the jobs that the last scan considered; None = all of them."""
        if self.knobs.backfill != Backfill.EASY and self.knobs.place != Place.HOLD:
            return None
        count = int(self.state.clock[0].window_count)
        return {int(job_id) for job_id in self.state.window["tie"][:count]}

    def is_scanned(self, job_id: int) -> bool:
        """Return whether the job is within the part of the queue that a decision scans."""
        return self._scanned is None or job_id in self._scanned

    def depth_for(self, job_id: int) -> int:
        """Return the knob `depth` with which the last scan would have reached the job."""
        started = self.knobs.depth - len(self._scanned or ())
        return self.place_of(job_id) + max(0, started)

    def probe(self, job_id: int) -> PlacementProbe:
        """Return a probe that tests whether the job would find a place."""
        respects = self.knobs.backfill == Backfill.EASY and job_id != self.head
        return PlacementProbe(self.state, self.knobs, job_id, respects)

    def predecessors(self, job_id: int) -> list[int]:
        """Return the jobs that a held job waits for and that have not ended."""
        owners, links = self._links
        first, last = np.searchsorted(links, [job_id, job_id + 1])
        final = self.state.runs.status >= Status.DONE
        return [int(job) for job in np.sort(owners[first:last]) if not final[job]]

    @cached_property
    def _links(self) -> tuple[Ints, Ints]:
        owners = np.repeat(np.arange(len(self.state.jobs)), self.state.jobs.successor_count)
        by_follower = np.argsort(self.state.links, kind="stable")
        return owners[by_follower], self.state.links[by_follower].astype(np.int64)

    # The cluster --------------------------------------------------------------

    def pools_of(self, job_id: int) -> list[int]:
        """Return the pools the job could run on."""
        mask = int(self.state.shapes[self.state.jobs[job_id].shape_id].pools)
        return [pool_id for pool_id in range(len(self.state.pools)) if mask >> pool_id & 1]

    def room(self, job_id: int) -> Room:
        """Return how much is free for the job on the pools it could run on."""
        shape_id = int(self.state.jobs[job_id].shape_id)
        if shape_id not in self._rooms:
            self._rooms[shape_id] = self._count_room(job_id)
        return self._rooms[shape_id]

    def _count_room(self, job_id: int) -> Room:
        job = self.state.jobs[job_id]
        down: list[int] = []
        total = free = most_in_pool = most_on_node = nodes = empty = short = outside = 0
        could_hold = False
        for pool_id in self.pools_of(job_id):
            pool = self.state.pools[pool_id]
            first, count, capacity = int(pool.first_node), int(pool.nodes), int(pool.capacity)
            pool_nodes: Any = self.state.nodes[first : first + count]
            up = pool_nodes.down == 0
            here = pool_nodes.free.astype(np.int64)
            if job.milli < MILLI_PER_DEVICE:
                shares, without_memory = self._open_devices(pool_nodes, capacity, job)
                here, short = here + shares, short + int(without_memory[up].sum())
            here = here[up]
            empty += int((pool_nodes.free[up] == capacity).sum())
            down += [first + int(node) for node in np.flatnonzero(~up)]
            outside += int(self._outside[first : first + count].sum())
            total, nodes = total + count * capacity, nodes + count
            free += int(here.sum())
            most_in_pool = max(most_in_pool, int(here.sum()))
            most_on_node = max(most_on_node, int(here.max(initial=0)))
            could_hold |= int(up.sum()) >= max(1, -(-int(job.devices) // capacity))
        return Room(
            total, free, most_in_pool, most_on_node, nodes, empty, tuple(down), outside, short,
            could_hold,
        )  # fmt: skip

    @cached_property
    def _outside(self) -> Ints:
        """Return how many devices of each node are neither free nor held by a job."""
        state = self.state
        ours = [int(mask) for mask in state.nodes.free_mask | state.nodes.open_mask]
        for job_id in np.flatnonzero(state.runs.status == Status.RUNNING):
            at = int(state.runs[job_id].first_row)
            while at >= 0:
                ours[state.rows[at].node] |= int(state.rows[at].mask)
                at = int(state.rows[at].next)
        sizes = state.pools.capacity[state.nodes.pool].tolist()
        pairs = zip(sizes, ours, strict=True)
        return np.array([size - mask.bit_count() for size, mask in pairs], np.int64)

    def _open_devices(self, nodes: Any, capacity: int, job: Any) -> tuple[Ints, Ints]:
        """Return per node the devices with a share free for the job, and those short of memory."""
        at = np.arange(capacity)
        in_part = (nodes.open_mask[:, None] >> at.astype(np.uint64)) & np.uint64(1) == 1
        places = np.where(in_part, nodes.first_device[:, None] + at, 0)
        devices: Any = self.state.devices[places]
        share = in_part & (devices["free_milli"] >= job.milli)
        fits = devices["free_mib"] >= job.memory_mib
        return (share & fits).sum(axis=1), (share & ~fits).sum(axis=1)

    def running_on(self, pool_ids: list[int]) -> Ints:
        """Return the jobs that run in these pools."""
        runs = self.state.runs
        return np.flatnonzero((runs.status == Status.RUNNING) & np.isin(runs.pool, pool_ids))

    def most_on_node_without(self, jobs: set[int]) -> int:
        """Return the most whole devices that one node would have free if these jobs were gone."""
        state = self.state
        free = np.where(state.nodes.down == 0, state.nodes.free, 0).astype(np.int64)
        for job_id in jobs:
            at = int(state.runs[job_id].first_row)
            while at >= 0:
                row = state.rows[at]
                if row.milli == MILLI_PER_DEVICE:
                    free[row.node] += int(row.mask).bit_count()
                at = int(row.next)
        return int(free.max())

    # The future ---------------------------------------------------------------

    @cached_property
    def _scratch(self) -> State:
        return clone(self.state)

    def earliest_us(self, job_id: int, pool_ids: list[int] | None = None) -> int | None:
        """Return when the job is expected to fit if nothing else starts before it; None = unknown.

        By the estimates of the running jobs, with the code that makes reservations. That code
        handles whole devices on whole nodes or on one node, and no power budget.
        """
        job = self.state.jobs[job_id]
        usable = pool_ids or self.pools_of(job_id)
        capacities = [int(self.state.pools[pool_id].capacity) for pool_id in usable]
        spread = self.knobs.span == Span.ANY and job.devices > 1
        rest = any(job.devices > devices and job.devices % devices for devices in capacities)
        if spread or rest or job.milli < MILLI_PER_DEVICE:
            return None
        mask = sum(1 << pool_id for pool_id in usable)
        key = (int(job.shape_id), mask)
        if key not in self._earliest:
            shape: Any = self._scratch.shapes[job.shape_id]
            before, shape.pools = int(shape.pools), np.uint64(mask)
            when, _pool = diagnose.reserve_for(self._scratch, job_id)
            shape.pools = np.uint64(before)
            self._earliest[key] = int(when)
        when = self._earliest[key]
        return when if when < FOREVER_US else None

    @cached_property
    def starts_if_repaired(self) -> set[int]:
        """Return the jobs that would start now if every node were up."""
        from flyball.schedule.kernel import decide_now

        copy = clone(self.state)
        diagnose.bring_up(copy)
        decide_now(copy, self._packed)
        plan: Any = copy.plan[: copy.clock[0].actions]
        return {int(job_id) for job_id in plan.job[plan.kind == ActionKind.START]}

    @cached_property
    def starts_without_budget(self) -> dict[int, Spot]:
        """Return the jobs that would start now without the power budget, in order, and where.

        This includes devices that the budget rules out for a job altogether, because the job
        would exceed it there even alone.
        """
        from flyball.schedule.kernel import decide_now

        if self.state.clock[0].budget_w <= 0:
            return {}
        started: list[dict[int, Spot]] = []
        for lifted in (False, True):
            copy = clone(self.state)
            clock: Any = copy.clock[0]
            clock.capacity_grew = 1
            if lifted:
                clock.budget_w = 0.0
                for shape in copy.shapes:
                    sample = int(shape.sample)
                    memory_mib = int(copy.jobs[sample].memory_mib)
                    shape.pools = np.uint64(would_run(copy, sample, memory_mib))
            decide_now(copy, self._packed)
            plan: Any = copy.plan[: clock.actions]
            ids = plan.job[plan.kind == ActionKind.START].tolist()
            started.append({job_id: spot_of(copy, job_id) for job_id in ids})
        return {job_id: spot for job_id, spot in started[1].items() if job_id not in started[0]}

    @cached_property
    def next_round_us(self) -> int:
        """Return the next instant at which running jobs may be preempted."""
        every = to_us(self.knobs.round_s)
        return (self.now_us // every + 1) * every

    @cached_property
    def next_round(self) -> dict[int, list[int]]:
        """Return the jobs that would start in the next round, each with the jobs it preempts."""
        from flyball.schedule.kernel import decide_now

        if self.knobs.preempt != Preempt.ROUNDS:
            return {}
        copy = clone(self.state)
        clock: Any = copy.clock[0]
        clock.now_us = self.next_round_us
        decide_now(copy, self._packed)
        starts: dict[int, list[int]] = {}
        preempted: list[int] = []
        for action in copy.plan[: copy.clock[0].actions]:
            if action.kind == ActionKind.PREEMPT:
                preempted.append(int(action.job))
            elif action.kind == ActionKind.START and int(action.job) not in starts:
                starts[int(action.job)], preempted = preempted, []
        return starts
