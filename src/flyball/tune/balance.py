"""Balance: moves jobs so that a gang can start whose devices are free, but on too many nodes.

For the gang (the *winner*) each pool is checked: which nodes are cheapest to clear, and do all
jobs that leave them fit elsewhere in the pool at once? They are moved only if the winner then
starts in the same plan, and if

    winner's work per second * the time it would wait  >  margin * what the moves cost,

both in reference device-seconds. A move costs its job the checkpoint and the restart. The wait
lasts until running jobs are expected to end and leave a place free, at most `horizon_s`: it is the
least the winner would wait, so it does not overstate the gain.

Nothing is remembered between rounds: the state shows which jobs were moved within the last hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.protocols import Outlook
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S, to_us
from flyball.tune.plan_draft import PlanDraft

HOUR_US = to_us(S_PER_HOUR)
NODES_CONSIDERED = 64
"""Nodes of a pool considered, those with most free devices: others cost more to clear."""


@dataclass(frozen=True)
class Balance:
    """Holds the settings of the tuner.

    Attributes:
        per_hour: limit of moves in an hour in the whole cluster.
        moves: a job that was preempted this often is not moved again; nor is one that began
            its slice less than an hour ago after a preemption.
        horizon_s: longest time for which a gain counts.
        margin: ratio of gain to cost that moves need.
        looked_at: waiting gangs considered in a round.
    """

    per_hour: int = 12
    moves: int = 3
    horizon_s: float = S_PER_HOUR
    margin: float = 1.5
    looked_at: int = 8

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with jobs moved to make room for gangs that then start."""
        left = self.per_hour - moved_recently(state)
        draft = PlanDraft(state, plan)
        winners = _winners(state, draft, plan, self.looked_at)
        if left <= 0 or not winners:
            return plan
        occupancy = _Occupancy(state, draft, plan, self)
        changed = False
        for job in winners:
            best = occupancy.best(job, left)
            if best is not None and occupancy.carry_out(job, best):
                left -= len(best.jobs)
                changed = True
        return draft.plan() if changed else plan


def moved_recently(state: State) -> int:
    """Count the jobs restarted within the last hour after a preemption for any reason."""
    runs = state.runs.view(np.ndarray)
    now_us = int(state.clock["now_us"][0])
    recent = (runs["preemptions"] > 0) & (runs["began_us"] > now_us - HOUR_US)
    return int((recent & (runs["status"] >= Status.RUNNING)).sum())


def _winners(state: State, draft: PlanDraft, plan: Records, most: int) -> list[int]:
    """Return waiting gangs with enough free devices in a pool but no room, in order.

    A head that holds a reservation is the only candidate: another might take its place.
    """
    jobs = state.jobs.view(np.ndarray)
    reserved = plan["job"][plan["kind"] == ActionKind.RESERVE]
    waiting = draft.active[draft.count[draft.active] == 0]
    free = [draft.free_in(pool) for pool in range(len(state.pools))]
    asked = jobs["devices"][waiting]
    gang = (asked > 1) & (asked <= max(free)) & (jobs["milli"][waiting] == MILLI_PER_DEVICE)
    waiting = waiting[gang]
    if len(reserved):
        waiting = waiting[waiting == reserved[0]]
    order = np.lexsort((waiting, jobs["submit_us"][waiting], -jobs["priority"][waiting]))
    scattered: dict[int, bool] = {}  # by shape: jobs of one shape fit alike
    winners: list[int] = []
    for job in waiting[order].tolist():
        shape, devices = int(jobs["shape_id"][job]), int(jobs["devices"][job])
        if shape not in scattered:
            pools = _pools(state, job)
            fits = any(draft.room(pool, devices) for pool in pools)
            scattered[shape] = not fits and any(free[pool] >= devices for pool in pools)
        if scattered[shape]:
            winners.append(job)
        if len(winners) == most:
            break
    return winners


def _pools(state: State, job: int) -> list[int]:
    """Return the pools a job could run on."""
    bits = int(state.shapes["pools"][state.jobs["shape_id"][job]])
    return [pool for pool in range(len(state.pools)) if bits >> pool & 1]


class Moves(NamedTuple):
    """Holds the jobs to move so that a gang fits a pool; gain less cost decides."""

    pool: int
    jobs: tuple[int, ...]
    gain: float
    cost: float


class Clearing(NamedTuple):
    """Holds the jobs to move off a node: what that costs, how many devices move, which jobs."""

    cost: float
    devices: int
    jobs: tuple[int, ...]


class _Occupancy:
    """Tracks where jobs are, which may be moved, at what cost, and when they should end."""

    def __init__(self, state: State, draft: PlanDraft, plan: Records, rule: Balance) -> None:
        self.state, self.draft, self.rule = state, draft, rule
        self._jobs, self._runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
        self._worth: Floats = self._jobs["reference_us"] / np.maximum(
            self._jobs["estimate_us"], 1.0
        )
        self._job, self._node, self._devices = _held(state, set(plan["job"].tolist()))
        self._end_us = self._ends(self._job)
        movable = self._movable()
        self._add_starts(plan)
        self._on: dict[int, list[int]] = {}
        for job, node in zip(*movable, strict=True):
            self._on.setdefault(node, []).append(job)

    # Running jobs ---------------------------------------------------------------------

    def _movable(self) -> tuple[list[int], list[int]]:
        """Return the jobs that may be moved (whole devices of one node), and their nodes."""
        job, runs = self._job, self._runs
        rows = np.bincount(job, minlength=len(runs))
        moved_often = runs["preemptions"][job] >= self.rule.moves
        began_us = runs["began_us"][job]
        moved_recently = (runs["preemptions"][job] > 0) & (began_us > self.draft.now_us - HOUR_US)
        movable = (rows[job] == 1) & (self._devices > 0) & ~moved_often & ~moved_recently
        movable &= (self._jobs["milli"][job] == MILLI_PER_DEVICE) & (
            runs["ready_us"][job] <= self.draft.now_us
        )
        alone = [row for row in np.flatnonzero(movable) if not self.draft.guests(int(job[row]))]
        return job[alone].tolist(), self._node[alone].tolist()

    def _ends(self, job: Ints) -> Floats:
        """Return when running jobs are expected to end; an outlived estimate doubles."""
        runs, now_us = self._runs, self.draft.now_us
        ran_us = np.maximum(0, now_us - runs["ready_us"][job])
        rate = np.maximum(runs["rate"][job], 1e-12)
        done = runs["done_us"][job] + ran_us * rate
        estimate = np.maximum(self._jobs["estimate_us"][job], 1.0)
        doubled = np.maximum(0.0, np.floor(np.log2(np.maximum(done / estimate, 1e-12))) + 1.0)
        ready_us = np.maximum(runs["ready_us"][job], now_us)
        ends: Floats = ready_us + (estimate * 2.0**doubled - done) / rate
        return ends

    def _add_starts(self, plan: Records) -> None:
        """Add the plan's starts, which hold devices for their estimated time."""
        rows = plan[(plan["kind"] == ActionKind.START) & (plan["mask"] > 0)]
        job, pools = rows["job"].astype(np.int64), len(self.state.pools)
        rate = self.state.rates["packed"][self._jobs["profile"][job] * pools + self.draft.pool[job]]
        left = np.maximum(self._jobs["estimate_us"][job] - self._runs["done_us"][job], 1.0)
        self._job = np.concatenate((self._job, job))
        self._node = np.concatenate((self._node, rows["node"].astype(np.int64)))
        taken = np.bitwise_count(rows["mask"]).astype(np.int64)
        self._devices = np.concatenate((self._devices, taken))
        ends = self.draft.now_us + left / np.maximum(rate, 1e-12)
        self._end_us = np.concatenate((self._end_us, ends))

    # Gain and cost --------------------------------------------------------------------

    def best(self, job: int, most: int) -> Moves | None:
        """Return the moves that gain most beyond their cost; None = no moves pay."""
        candidates = []
        pools = _pools(self.state, job)
        devices = int(self._jobs["devices"][job])
        wait_s = min(self._wait_s(pool, devices) for pool in pools)
        lasts_s = min(wait_s, self.rule.horizon_s)
        for pool in pools:
            cleared = self._clear(pool, devices)
            if cleared is None or not 0 < len(cleared.jobs) <= most:
                continue
            gain = self._value(job, pool) * lasts_s
            if gain > self.rule.margin * cleared.cost:
                candidates.append(Moves(pool, cleared.jobs, gain, cleared.cost))
        return max(candidates, key=lambda moves: moves.gain - moves.cost, default=None)

    def _value(self, job: int, pool: int) -> float:
        """Return the reference work per second of a job with the devices it asks for."""
        at = int(self._jobs["profile"][job]) * len(self.state.pools) + pool
        return float(self._worth[job] * self.state.rates["packed"][at])

    def _cost(self, job: int) -> float:
        """Return the reference work that a job loses while it moves."""
        record = self._jobs[job]
        move_s = float(record["restart_us"] + record["checkpoint_us"]) / US_PER_S
        return float(self._worth[job] * self._runs["rate"][job]) * move_s

    def _wait_s(self, pool: int, devices: int) -> float:
        """Return how long until a place for a gang is expected to be free without moves."""
        record = self.state.pools[pool]
        first, nodes, capacity = int(record.first_node), int(record.nodes), int(record.capacity)
        in_pool = (self._node >= first) & (self._node < first + nodes)
        node, taken = self._node[in_pool] - first, self._devices[in_pool]
        end_us = self._end_us[in_pool]
        if devices <= capacity:
            order = np.lexsort((end_us, node))
            node, taken, end_us = node[order], taken[order], end_us[order]
            before = np.cumsum(taken) - taken
            begins = np.searchsorted(node, node)
            freed = before - before[begins] + taken + self.draft.free[first + node]
            enough = end_us[freed >= devices]
            at_us = float(enough.min()) if len(enough) else np.inf
        else:
            clear_us = np.full(nodes, -np.inf)
            np.maximum.at(clear_us, node, end_us)
            needed = -(-devices // capacity)
            at_us = float(np.sort(clear_us)[needed - 1]) if needed <= nodes else np.inf
        return max(0.0, (at_us - self.draft.now_us) / US_PER_S)

    # Moves ------------------------------------------------------------------------------

    def _clear(self, pool: int, devices: int) -> Clearing | None:
        """Return the cheapest way to make room for a gang in a pool; None = there is none."""
        if self.draft.free_in(pool) < devices:
            return None  # a job that moved would find no other place
        record = self.state.pools[pool]
        first, capacity = int(record.first_node), int(record.capacity)
        free = self.draft.free[first : first + int(record.nodes)]
        full_nodes, rest = divmod(devices, capacity)
        nodes = (first + np.argsort(-free, kind="stable")[: NODES_CONSIDERED + full_nodes]).tolist()
        chosen: list[Clearing] = []
        for part, count in ((capacity, full_nodes), (rest, 1 if rest else 0)):
            ways = [(self._leave(node, part), node) for node in nodes]
            able = sorted((way, node) for way, node in ways if way is not None)
            if len(able) < count:
                return None
            chosen += [way for way, _ in able[:count]]
            used = {node for _, node in able[:count]}
            nodes = [node for node in nodes if node not in used]
        jobs = tuple(job for way in chosen for job in way.jobs)
        return Clearing(sum(way.cost for way in chosen), sum(way.devices for way in chosen), jobs)

    def _leave(self, node: int, devices: int) -> Clearing | None:
        """Return the cheapest jobs to move off a node so that `devices` are free there."""
        need = devices - int(self.draft.free[node])
        jobs = self._on.get(node, []) if need > 0 else []
        sizes = [int(self._runs["devices"][job]) for job in jobs]
        return cheapest(jobs, sizes, [self._cost(job) for job in jobs], need)

    def carry_out(self, winner: int, moves: Moves) -> bool:
        """Start the winner and restart the others elsewhere; all of them, or nothing changes."""
        draft = self.draft
        devices = int(self._jobs["devices"][winner])
        before = [(job, int(draft.count[job]), int(draft.cap[job])) for job in moves.jobs]
        before.sort(key=lambda entry: (-entry[1], entry[0]))
        for job, _, _ in before:
            draft.stop(job, Reason.MOVED, moves.gain - moves.cost)
        if draft.start(winner, moves.pool, devices, Reason.LET_IN, moves.gain):
            if all(self._put(moves, *entry) for entry in before):
                self._forget(moves.jobs)
                return True
            draft.stop(winner, Reason.LET_IN, moves.gain)
        for job in moves.jobs:
            if draft.count[job]:
                draft.stop(job, Reason.MOVED, moves.gain)
        back = [self._put(moves, *entry) for entry in before]
        assert all(back), "a job fits where it was"
        return False

    def _put(self, moves: Moves, job: int, count: int, cap: int) -> bool:
        return self.draft.start(job, moves.pool, count, Reason.MOVED, moves.gain - moves.cost, cap)

    def _forget(self, jobs: tuple[int, ...]) -> None:
        """Exclude jobs that were moved from further moves in this round."""
        for on_node in self._on.values():
            on_node[:] = [job for job in on_node if job not in jobs]


def cheapest(
    jobs: Sequence[int], sizes: Sequence[int], costs: Sequence[float], need: int
) -> Clearing | None:
    """Return the jobs of least cost that hold at least `need` devices; ties: fewest devices.

    Exact, by dynamic programming: the cheapest way to free 0, 1, ... devices, job by job.
    """
    nothing = Clearing(0.0, 0, ())
    if need <= 0:
        return nothing
    best: list[Clearing | None] = [nothing, *[None] * need]
    for job, size, cost in zip(jobs, sizes, costs, strict=True):
        for freed in range(need, -1, -1):
            so_far = best[freed]
            if so_far is None:
                continue
            reached = min(need, freed + size)
            way = Clearing(so_far.cost + cost, so_far.devices + size, (*so_far.jobs, job))
            there = best[reached]
            if there is None or way < there:
                best[reached] = way
    return best[need]


def _held(state: State, planned: set[int]) -> tuple[Ints, Ints, Ints]:
    """Return the rows of running jobs that the plan does not change: jobs, nodes and devices."""
    runs, rows = state.runs.view(np.ndarray), state.rows.view(np.ndarray)
    running = np.flatnonzero((runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0))
    job = running[~np.isin(running, list(planned))] if planned else running
    row = runs["first_row"][job].astype(np.int64)
    steps: list[tuple[Any, Any]] = []  # the first rows of all jobs, then the second ones, ...
    while len(row):
        steps.append((job, row))
        more = rows["next"][row] >= 0
        job, row = job[more], rows["next"][row[more]].astype(np.int64)
    jobs = np.concatenate([part for part, _ in steps]) if steps else np.zeros(0, np.int64)
    all_rows = np.concatenate([part for _, part in steps]) if steps else np.zeros(0, np.int64)
    devices = np.bitwise_count(rows["mask"][all_rows]).astype(np.int64)
    return jobs, rows["node"][all_rows].astype(np.int64), devices
