"""Balance: a gang waits although enough devices are free, on too many nodes. Move jobs aside.

For the gang (the *winner*) each pool is looked at: which nodes are cheapest to clear, and does
everybody who leaves them fit elsewhere in the pool at once? It is done only if the winner then
starts in the same plan, and if

    winner's work a second * the time it would wait  >  margin * what the moves cost,

both in reference device-seconds. A move costs its job the checkpoint and the restart. The wait is
until the expected ends of running jobs leave a place free, at most `horizon_s`: it is the least
the winner would wait, so the gain is not overstated by it.

Nothing is remembered between rounds: who was moved within the last hour is seen in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.protocols import Forecast
from flyball.core.records import Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S, to_us
from flyball.tune.plan_draft import Board

HOUR_US = to_us(S_PER_HOUR)
NODES_LOOKED_AT = 64
"""Nodes of a pool with most free devices: others are dearer to clear."""


@dataclass(frozen=True)
class Balance:
    """Settings of the tuner.

    Attributes:
        per_hour: moves in an hour, at most, in the whole cluster.
        moves: a job that was set aside so often is not moved again; nor is one that began
            its slice after being set aside less than an hour ago.
        horizon_s: a gain counts for this long at most.
        margin: gain over cost that moves need.
        looked_at: waiting gangs in a round.
    """

    per_hour: int = 12
    moves: int = 3
    horizon_s: float = S_PER_HOUR
    margin: float = 1.5
    looked_at: int = 8

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan with jobs moved aside for gangs that then start."""
        left = self.per_hour - moved_lately(state)
        board = Board(state, plan)
        winners = _winners(state, board, plan, self.looked_at)
        if left <= 0 or not winners:
            return plan
        floor = _Floor(state, board, plan, self)
        changed = False
        for job in winners:
            best = floor.best(job, left)
            if best is not None and floor.carry_out(job, best):
                left -= len(best.jobs)
                changed = True
        return board.plan() if changed else plan


def moved_lately(state: State) -> int:
    """Jobs that began again within the last hour, after they were set aside for whatever reason."""
    runs = state.runs.view(np.ndarray)
    now_us = int(state.clock["now_us"][0])
    recent = (runs["preemptions"] > 0) & (runs["began_us"] > now_us - HOUR_US)
    return int((recent & (runs["status"] >= Status.RUNNING)).sum())


def _winners(state: State, board: Board, plan: Records, most: int) -> list[int]:
    """Waiting gangs with enough free devices in a pool, but no room; the one to go first leads.

    A head that holds a reservation is the only one: another might take its place.
    """
    jobs = state.jobs.view(np.ndarray)
    reserved = plan["job"][plan["kind"] == ActionKind.RESERVE]
    waiting = board.active[board.count[board.active] == 0]
    free = [board.free_in(pool) for pool in range(len(state.pools))]
    asked = jobs["devices"][waiting]
    gang = (asked > 1) & (asked <= max(free)) & (jobs["milli"][waiting] == MILLI_PER_DEVICE)
    waiting = waiting[gang]
    if len(reserved):
        waiting = waiting[waiting == reserved[0]]
    order = np.lexsort((waiting, jobs["submit_us"][waiting], -jobs["priority"][waiting]))
    scattered: dict[int, bool] = {}  # by shape: those of one shape fit alike
    found: list[int] = []
    for job in waiting[order].tolist():
        shape, devices = int(jobs["shape_id"][job]), int(jobs["devices"][job])
        if shape not in scattered:
            pools = _pools(state, job)
            fits = any(board.room(pool, devices) for pool in pools)
            scattered[shape] = not fits and any(free[pool] >= devices for pool in pools)
        if scattered[shape]:
            found.append(job)
        if len(found) == most:
            break
    return found


def _pools(state: State, job: int) -> list[int]:
    """The pools a job could run on."""
    bits = int(state.shapes["pools"][state.jobs["shape_id"][job]])
    return [pool for pool in range(len(state.pools)) if bits >> pool & 1]


class Moves(NamedTuple):
    """Who would go so that a job fits a pool: the gain less the cost decides."""

    pool: int
    jobs: tuple[int, ...]
    gain: float
    cost: float


class Clearing(NamedTuple):
    """Who would leave a node: what that costs, how many devices move, which jobs."""

    cost: float
    devices: int
    jobs: tuple[int, ...]


class _Floor:
    """Who is where, who may be moved, at what cost, and when they are expected to end."""

    def __init__(self, state: State, board: Board, plan: Records, rule: Balance) -> None:
        self.state, self.board, self.rule = state, board, rule
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

    # Who ------------------------------------------------------------------------------

    def _movable(self) -> tuple[list[int], list[int]]:
        """Running jobs with whole devices of one node, and the nodes."""
        job, runs = self._job, self._runs
        rows = np.bincount(job, minlength=len(runs))
        often = runs["preemptions"][job] >= self.rule.moves
        began_us = runs["began_us"][job]
        again = (runs["preemptions"][job] > 0) & (began_us > self.board.now_us - HOUR_US)
        fine = (rows[job] == 1) & (self._devices > 0) & ~often & ~again
        fine &= (self._jobs["milli"][job] == MILLI_PER_DEVICE) & (
            runs["ready_us"][job] <= self.board.now_us
        )
        alone = [each for each in np.flatnonzero(fine) if not self.board.guests(int(job[each]))]
        return job[alone].tolist(), self._node[alone].tolist()

    def _ends(self, job: Ints) -> Floats:
        """When running jobs are expected to end; an estimate that was outlived doubles."""
        runs, now_us = self._runs, self.board.now_us
        ran_us = np.maximum(0, now_us - runs["ready_us"][job])
        rate = np.maximum(runs["rate"][job], 1e-12)
        done = runs["done_us"][job] + ran_us * rate
        estimate = np.maximum(self._jobs["estimate_us"][job], 1.0)
        doubled = np.maximum(0.0, np.floor(np.log2(np.maximum(done / estimate, 1e-12))) + 1.0)
        ready_us = np.maximum(runs["ready_us"][job], now_us)
        ends: Floats = ready_us + (estimate * 2.0**doubled - done) / rate
        return ends

    def _add_starts(self, plan: Records) -> None:
        """What the plan starts holds devices as well, for as long as it is estimated to take."""
        rows = plan[(plan["kind"] == ActionKind.START) & (plan["mask"] > 0)]
        job, pools = rows["job"].astype(np.int64), len(self.state.pools)
        rate = self.state.rates["packed"][self._jobs["profile"][job] * pools + self.board.pool[job]]
        left = np.maximum(self._jobs["estimate_us"][job] - self._runs["done_us"][job], 1.0)
        self._job = np.concatenate((self._job, job))
        self._node = np.concatenate((self._node, rows["node"].astype(np.int64)))
        taken = np.bitwise_count(rows["mask"]).astype(np.int64)
        self._devices = np.concatenate((self._devices, taken))
        ends = self.board.now_us + left / np.maximum(rate, 1e-12)
        self._end_us = np.concatenate((self._end_us, ends))

    # What it would be worth -----------------------------------------------------------

    def best(self, job: int, most: int) -> Moves | None:
        """The moves that gain most beyond their cost; None = none that pay."""
        found = []
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
                found.append(Moves(pool, cleared.jobs, gain, cleared.cost))
        return max(found, key=lambda moves: moves.gain - moves.cost, default=None)

    def _value(self, job: int, pool: int) -> float:
        """Reference work a second of a job with what it asks for."""
        at = int(self._jobs["profile"][job]) * len(self.state.pools) + pool
        return float(self._worth[job] * self.state.rates["packed"][at])

    def _cost(self, job: int) -> float:
        """Reference work that a job does not do while it moves."""
        own = self._jobs[job]
        move_s = float(own["restart_us"] + own["checkpoint_us"]) / US_PER_S
        return float(self._worth[job] * self._runs["rate"][job]) * move_s

    def _wait_s(self, pool: int, devices: int) -> float:
        """How long until a place for a gang is expected free by itself."""
        record = self.state.pools[pool]
        first, nodes, capacity = int(record.first_node), int(record.nodes), int(record.capacity)
        mine = (self._node >= first) & (self._node < first + nodes)
        node, taken, end_us = self._node[mine] - first, self._devices[mine], self._end_us[mine]
        if devices <= capacity:
            order = np.lexsort((end_us, node))
            node, taken, end_us = node[order], taken[order], end_us[order]
            before = np.cumsum(taken) - taken
            begins = np.searchsorted(node, node)
            freed = before - before[begins] + taken + self.board.free[first + node]
            enough = end_us[freed >= devices]
            at_us = float(enough.min()) if len(enough) else np.inf
        else:
            clear_us = np.full(nodes, -np.inf)
            np.maximum.at(clear_us, node, end_us)
            needed = -(-devices // capacity)
            at_us = float(np.sort(clear_us)[needed - 1]) if needed <= nodes else np.inf
        return max(0.0, (at_us - self.board.now_us) / US_PER_S)

    # How --------------------------------------------------------------------------------

    def _clear(self, pool: int, devices: int) -> Clearing | None:
        """The cheapest way to make room for a gang in a pool; None = there is none."""
        if self.board.free_in(pool) < devices:
            return None  # whoever moved would find no other place
        record = self.state.pools[pool]
        first, capacity = int(record.first_node), int(record.capacity)
        free = self.board.free[first : first + int(record.nodes)]
        whole, rest = divmod(devices, capacity)
        nodes = (first + np.argsort(-free, kind="stable")[: NODES_LOOKED_AT + whole]).tolist()
        chosen: list[Clearing] = []
        for part, count in ((capacity, whole), (rest, 1 if rest else 0)):
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
        """The cheapest jobs of a node whose leaving makes `devices` free there."""
        need = devices - int(self.board.free[node])
        jobs = self._on.get(node, []) if need > 0 else []
        sizes = [int(self._runs["devices"][job]) for job in jobs]
        return cheapest(jobs, sizes, [self._cost(job) for job in jobs], need)

    def carry_out(self, winner: int, moves: Moves) -> bool:
        """Let the winner start and the others go on elsewhere; all of them, or nothing changes."""
        board = self.board
        devices = int(self._jobs["devices"][winner])
        before = [(job, int(board.count[job]), int(board.cap[job])) for job in moves.jobs]
        before.sort(key=lambda each: (-each[1], each[0]))
        for job, _, _ in before:
            board.stop(job, Reason.MOVED, moves.gain - moves.cost)
        if board.start(winner, moves.pool, devices, Reason.LET_IN, moves.gain):
            if all(self._put(moves, *each) for each in before):
                self._forget(moves.jobs)
                return True
            board.stop(winner, Reason.LET_IN, moves.gain)
        for job in moves.jobs:
            if board.count[job]:
                board.stop(job, Reason.MOVED, moves.gain)
        back = [self._put(moves, *each) for each in before]
        assert all(back), "a job fits where it was"
        return False

    def _put(self, moves: Moves, job: int, count: int, cap: int) -> bool:
        return self.board.start(job, moves.pool, count, Reason.MOVED, moves.gain - moves.cost, cap)

    def _forget(self, jobs: tuple[int, ...]) -> None:
        """Who was moved stays where it is for the rest of the round."""
        for mine in self._on.values():
            mine[:] = [job for job in mine if job not in jobs]


def cheapest(
    jobs: Sequence[int], sizes: Sequence[int], costs: Sequence[float], need: int
) -> Clearing | None:
    """The jobs of least cost that hold at least `need` devices; then fewest devices.

    Exact: the cheapest way to free 0, 1, ... devices, one job after the other.
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
    """What running jobs hold that the plan says nothing of: job, node and devices of each row."""
    runs, rows = state.runs.view(np.ndarray), state.rows.view(np.ndarray)
    running = np.flatnonzero((runs["status"] == Status.RUNNING) & (runs["first_row"] >= 0))
    job = running[~np.isin(running, list(planned))] if planned else running
    row = runs["first_row"][job].astype(np.int64)
    found: list[tuple[Any, Any]] = []
    while len(row):
        found.append((job, row))
        more = rows["next"][row] >= 0
        job, row = job[more], rows["next"][row[more]].astype(np.int64)
    jobs = np.concatenate([each for each, _ in found]) if found else np.zeros(0, np.int64)
    all_rows = np.concatenate([each for _, each in found]) if found else np.zeros(0, np.int64)
    devices = np.bitwise_count(rows["mask"][all_rows]).astype(np.int64)
    return jobs, rows["node"][all_rows].astype(np.int64), devices
