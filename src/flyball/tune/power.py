"""Power: caps that save energy, a budget that is kept, nodes that sleep while nobody needs them.

A round does, in this order:

1. *Cap* every job that runs after the plan at the level of least node energy for its work
   (`physics.caps`: exact over the levels), at most `slowdown` slower, and never so that its
   own time limit would be in danger. A pair on one device counts each by itself.
2. *Keep the budget*: if all of them draw more than the cluster may, stronger caps where a
   watt costs least work. If pending jobs have devices but no watts, room is made for them
   in the same way, as long as they do more work than the caps cost.
3. *Sleep and wake*: nodes are kept awake for the devices that the forecast's upper quantile
   asks for within the time a node takes to wake, and `spare` more; other idle ones sleep.

The forecast is of devices held or asked for in the whole cluster, in steps of `step_s`.
The gain of a cap, of sleep and of waking is in watts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Reason, Status
from flyball.core.protocols import Forecast
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S
from flyball.physics.caps import Ladder, best_level, fit_budget, node_energy
from flyball.tune.plan_draft import Board

LIMIT_SLACK = 0.9
"""A capped job should be done within this part of its time limit."""


@dataclass(frozen=True)
class Power:
    """Settings of the tuner.

    Attributes:
        slowdown: how much longer a job may take for the sake of energy; 0 = no caps but for
            the budget.
        level: the quantile of the forecast that nodes are kept awake for.
        step_s: of the forecast.
        round_s: until it is asked again.
        spare: idle nodes kept awake besides; negative = leave sleep alone.
    """

    slowdown: float = 0.06
    level: float = 0.9
    step_s: float = 60.0
    round_s: float = 60.0
    spare: int = 1

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records:
        """The plan with caps set and nodes sent to sleep or woken."""
        board = Board(state, plan)
        self._cap(state, board)
        if self.spare >= 0:
            self._sleep(state, board, forecast)
        return board.plan()

    # 1. and 2. Caps -------------------------------------------------------------------

    def _cap(self, state: State, board: Board) -> None:
        jobs = board.active[board.count[board.active] > 0]
        if not len(jobs):
            return
        ladder = _ladder(state, jobs, board.pool[jobs], board.count[jobs])
        host_w = _host_w(state, board.pool[jobs]) * board.count[jobs]
        draw_w = ladder.watts[:, :1]
        energy = node_energy(ladder.time, ladder.watts / draw_w, draw_w, host_w[:, None])
        most = np.minimum(1.0 + self.slowdown, _in_time(state, board, jobs))
        levels = best_level(ladder.time, energy, most)
        levels = _within_budget(state, board, jobs, ladder, levels)
        rows = np.arange(len(jobs))
        saved_w = draw_w[:, 0] - ladder.watts[rows, levels]
        for at in np.flatnonzero(levels != board.cap[jobs]):
            weaker = levels[at] < board.cap[jobs[at]]
            reason = Reason.UNCAPPED if weaker else Reason.CAPPED
            board.set_cap(int(jobs[at]), int(levels[at]), reason, float(saved_w[at]))

    # 3. Sleep -----------------------------------------------------------------------

    def _sleep(self, state: State, board: Board, forecast: Forecast | None) -> None:
        """Idle nodes sleep beyond what is needed soon; sleeping ones wake in time for it."""
        nodes, pools = state.nodes, state.pools
        up = nodes.down == 0
        capacity = pools.capacity[nodes.pool].astype(np.int64)
        empty = up & (board.free == capacity) & (nodes.idle_since_us >= 0)
        asleep = empty & (nodes.sleeps_us <= board.now_us)
        needed = self._needed(state, board, forecast)
        room = int(capacity[up & ~empty].sum())
        spare = self.spare
        for node in _best_first(state, np.flatnonzero(empty), asleep):
            if room < needed or spare > 0:
                spare -= room >= needed
                room += int(capacity[node])
                if asleep[node]:
                    board.wake(int(node), -_sleep_w(state, node))
            elif not asleep[node]:
                board.sleep(int(node), _sleep_w(state, node))

    def _needed(self, state: State, board: Board, forecast: Forecast | None) -> float:
        """Devices asked for now, or at the upper quantile by the time a node is awake."""
        devices = np.where(board.count > 0, board.count, state.jobs.devices)[board.active]
        now = float(devices.sum())
        if forecast is None or not forecast.quantiles.size:
            return now
        ahead_s = float(state.pools.wake_us.max()) / US_PER_S + self.round_s
        steps = max(1, int(np.ceil(ahead_s / self.step_s)))
        row = int(np.abs(np.array(forecast.levels) - self.level).argmin())
        return max(now, float(forecast.quantiles[row, :steps].max()))


# Caps ---------------------------------------------------------------------------------


def _ladder(state: State, jobs: Ints, pool: Ints, count: Ints) -> Ladder:
    """What the cap levels mean for jobs on so many devices of a pool."""
    caps: Any = state.caps.reshape(-1, CAP_LEVELS)[pool]
    watts = state.rates.watts[state.jobs.profile[jobs] * len(state.pools) + pool]
    share = count * state.jobs.milli[jobs] / MILLI_PER_DEVICE
    idle_w = state.pools.idle_w[pool]
    each_w = np.maximum(watts[:, None] * caps.power, idle_w[:, None])
    worth = state.jobs.reference_us[jobs] / np.maximum(state.jobs.estimate_us[jobs], 1.0)
    rate = _rate(state, jobs, pool, count)
    return Ladder(each_w * share[:, None], np.array(caps.slowdown), worth * rate)


def _rate(state: State, jobs: Ints, pool: Ints, count: Ints) -> Floats:
    """Progress of jobs on so many devices of a pool, as far as it is known, without caps."""
    rate = state.rates.packed[state.jobs.profile[jobs] * len(state.pools) + pool].copy()
    curve = state.jobs.curve[jobs]
    elastic = np.flatnonzero(curve >= 0)
    if len(elastic):
        ranges: Any = state.ranges[curve[elastic]]
        steps = (count[elastic] - ranges.least) * len(state.pools) + pool[elastic]
        learned = state.learned[jobs[elastic] * len(state.pools) + pool[elastic]]
        rate[elastic] = state.guesses.packed[ranges.first + steps] * learned
    return np.asarray(np.maximum(rate, 1e-12))


def _host_w(state: State, pool: Ints) -> Floats:
    """The part of a node's host that goes with one device."""
    return np.asarray(state.pools.host_w[pool] / state.pools.capacity[pool])


def _in_time(state: State, board: Board, jobs: Ints) -> Floats:
    """The largest time factor at which each job ends within its own limit; 1 if it may not."""
    runs: Any = state.runs[jobs]
    limit_us = state.jobs.limit_us[jobs]
    running = runs.status == Status.RUNNING
    ran_us = np.where(running, board.now_us - runs.began_us, 0)
    slice_us = np.where(running, np.maximum(board.now_us - runs.ready_us, 0), 0)
    left = np.maximum(state.jobs.estimate_us[jobs] - runs.done_us - slice_us * runs.rate, 1.0)
    left_us = left / _rate(state, jobs, board.pool[jobs], board.count[jobs])
    most = (LIMIT_SLACK * limit_us - ran_us) / left_us
    return np.asarray(np.where(limit_us > 0, np.maximum(most, 1.0), np.inf))


def _within_budget(state: State, board: Board, jobs: Ints, ladder: Ladder, levels: Ints) -> Ints:
    """Levels at which the cluster keeps its budget, and has room for those it holds up."""
    budget_w = float(state.clock[0].budget_w)
    if not budget_w:
        return levels
    rows = np.arange(len(jobs))
    idle_w = float((state.pools.idle_w[board.pool[jobs]] * board.count[jobs]).sum())
    most_w = budget_w - _idle_cluster_w(state) + idle_w
    levels, _ = fit_budget(ladder, levels, most_w)
    for pool, job in _held_up(state, board):
        asked = _ladder(state, np.array([job]), np.array([pool]), state.jobs.devices[[job]])
        extra_w = float(asked.watts[0, 0] - state.pools.idle_w[pool] * state.jobs.devices[job])
        if float(ladder.watts[rows, levels].sum()) + extra_w <= most_w:
            most_w -= extra_w
            continue
        trial, lost = fit_budget(ladder, levels, most_w - extra_w)
        fits = float(ladder.watts[rows, trial].sum()) <= most_w - extra_w
        if not fits or lost >= float(asked.weight[0]):
            break
        levels, most_w = trial, most_w - extra_w
    return levels


def _idle_cluster_w(state: State) -> float:
    """What the nodes that are up draw with nothing on them, as the budget counts it."""
    pools = state.pools[state.nodes.pool[state.nodes.down == 0]]
    return float((pools.host_w + pools.capacity * pools.idle_w).sum())


def _held_up(state: State, board: Board) -> list[tuple[int, int]]:
    """Pending jobs that have devices but were not started, in order, with their pools."""
    found = []
    free = np.bincount(state.nodes.pool, board.free, len(state.pools))
    waiting = board.active[board.count[board.active] == 0]
    rates = state.rates.packed.reshape(-1, len(state.pools))
    for job in waiting[: int(free.sum())]:
        devices = int(state.jobs.devices[job])
        runs_in = np.flatnonzero((free >= devices) & (rates[state.jobs.profile[job]] > 0))
        able = [pool for pool in runs_in if devices and board.room(int(pool), devices)]
        if able:
            free[able[0]] -= devices
            found.append((int(able[0]), int(job)))
    return found


# Sleep --------------------------------------------------------------------------------


def _best_first(state: State, nodes: Ints, asleep: npt.NDArray[np.bool_]) -> Ints:
    """Nodes to keep awake first: those of pools that do most for a watt, then those awake."""
    pools = state.pools
    rates: Any = state.rates.reshape(-1, len(pools))
    node_w = rates.watts + (pools.host_w / pools.capacity)[None, :]
    useful = (rates.packed / node_w).mean(axis=0)
    order = np.lexsort((nodes, asleep[nodes], -useful[state.nodes.pool[nodes]]))
    return np.asarray(nodes[order])


def _sleep_w(state: State, node: Any) -> float:
    """What a sleeping node saves."""
    pool = state.pools[state.nodes.pool[node]]
    return float(pool.host_w + pool.capacity * pool.idle_w - pool.sleep_w)
