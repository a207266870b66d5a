"""Power: caps jobs to save energy, keeps the power budget, lets unneeded nodes sleep.

A round does, in this order:

1. *Cap* every job that runs after the plan at the level of least node energy for its work
   (`physics.caps`: exact over the levels), at most `slowdown` slower, and never so far that it
   risks its time limit. The jobs of a pair on one device are treated separately. While a job
   that must start soon to keep its deadline waits for devices, no job is slowed.
2. *Keep the budget*: if all jobs draw more than the cluster may, apply stronger caps where a
   watt costs least work. If pending jobs have devices but no watts, make room for them in the
   same way, as long as they do more work than the caps cost.
3. *Sleep and wake*: keep nodes awake for the devices that the upper quantile of the load forecast
   asks for within the time a node takes to wake, and `spare` more; other idle ones sleep.

With `follow`, the allowed slowdown is larger while electricity is dear or dirty relative to the
coming day and smaller while it is not, and no spare node is awake while it is. Budgets of a day
are turned into a limit of the draw until midnight (`signal_costs.ration_w`): starts beyond it wait,
caps are strengthened, and if the strongest do not suffice the jobs that started last are preempted.

The gain of a cap, of sleep and of waking is in watts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.protocols import Forecast, Outlook
from flyball.core.records import ACTION, CAP_LEVELS, Records, records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S, to_us
from flyball.physics.caps import Ladder, best_level, fit_budget, node_energy
from flyball.tune.plan_draft import PlanDraft
from flyball.tune.signal_costs import hourly_costs, ration_w, relative_cost

LIMIT_SLACK = 0.9
"""Part of its time limit, and of the time to its deadline, within which a capped job should end."""
SOON_US = to_us(6 * S_PER_HOUR)
"""Time to its latest start within which a job that waits for devices must not wait for caps."""
LEAST_W = 1.0
"""Limit of the draw when nothing is left of a day's budget: no job can start."""


@dataclass(frozen=True)
class Power:
    """Holds the settings of the tuner.

    Attributes:
        slowdown: how much longer a job may take to save energy; 0 = caps only for the budget.
        level: the quantile of the load forecast for which nodes are kept awake.
        round_s: time until the next round.
        spare: further idle nodes kept awake; negative = do not control sleep.
        follow: exponent of the cost of a kWh over its mean of the coming day, by which `slowdown`
            is multiplied; 0 = price and carbon change nothing.
        deepest: most that a job may be slowed while the cost is high.
        per_kg: money that a kg of CO2 counts for, if there is a price too.
    """

    slowdown: float = 0.06
    level: float = 0.9
    round_s: float = 60.0
    spare: int = 1
    follow: float = 0.0
    deepest: float = 0.25
    per_kg: float = 0.0

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with caps set and nodes sent to sleep or woken."""
        draft = PlanDraft(state, plan)
        rationed_w = ration_w(state, outlook)
        budget_w = _budget_w(state, rationed_w)
        cost = 1.0
        if self.follow:
            cost = relative_cost(hourly_costs(state, outlook, self.per_kg))
        if np.isfinite(rationed_w):
            _stop_beyond(state, draft, budget_w)
        self._cap(state, draft, cost, budget_w)
        if self.spare >= 0:
            self._sleep(state, draft, outlook.load, 0 if cost > 1.0 else self.spare)
        adjusted = draft.plan()
        return _rationed(adjusted, budget_w) if _has_day_budget(state) else adjusted

    # 1. and 2. Caps -------------------------------------------------------------------

    def _cap(self, state: State, draft: PlanDraft, cost: float, budget_w: float) -> None:
        jobs = draft.active[draft.count[draft.active] > 0]
        if not len(jobs):
            return
        ladder = _ladder(state, jobs, draft.pool[jobs], draft.count[jobs])
        host_w = _host_w(state, draft.pool[jobs]) * draft.count[jobs]
        draw_w = ladder.watts[:, :1]
        energy = node_energy(ladder.time, ladder.watts / draw_w, draw_w, host_w[:, None])
        slowdown = self.slowdown
        if self.follow:
            slowdown = min(self.deepest, slowdown * cost**self.follow)
        if _must_start_soon(state, draft):
            slowdown = 0.0
        most = np.minimum(1.0 + slowdown, _in_time(state, draft, jobs))
        levels = best_level(ladder.time, energy, most)
        levels = _within_budget(state, draft, jobs, ladder, levels, budget_w)
        rows = np.arange(len(jobs))
        saved_w = draw_w[:, 0] - ladder.watts[rows, levels]
        for at in np.flatnonzero(levels != draft.cap[jobs]):
            weaker = levels[at] < draft.cap[jobs[at]]
            reason = Reason.UNCAPPED if weaker else Reason.CAPPED
            draft.set_cap(int(jobs[at]), int(levels[at]), reason, float(saved_w[at]))

    # 3. Sleep -----------------------------------------------------------------------

    def _sleep(self, state: State, draft: PlanDraft, load: Forecast | None, spare: int) -> None:
        """Send idle nodes to sleep that are not needed soon; wake sleeping ones in time."""
        nodes, pools = state.nodes, state.pools
        up = nodes.down == 0
        capacity = pools.capacity[nodes.pool].astype(np.int64)
        empty = up & (draft.free == capacity) & (nodes.idle_since_us >= 0)
        asleep = empty & (nodes.sleeps_us <= draft.now_us)
        needed = self._needed(state, draft, load)
        room = int(capacity[up & ~empty].sum())
        for node in _best_first(state, np.flatnonzero(empty), asleep):
            if room < needed or spare > 0:
                spare -= room >= needed
                room += int(capacity[node])
                if asleep[node]:
                    draft.wake(int(node), -_sleep_w(state, node))
            elif not asleep[node]:
                draft.sleep(int(node), _sleep_w(state, node))

    def _needed(self, state: State, draft: PlanDraft, load: Forecast | None) -> float:
        """Return the devices needed now, or at the upper quantile by the time a node is awake."""
        devices = np.where(draft.count > 0, draft.count, state.jobs.devices)[draft.active]
        now = float(devices.sum())
        if load is None:
            return now
        ahead_s = float(state.pools.wake_us.max()) / US_PER_S + self.round_s
        return max(now, load.peak(self.level, ahead_s))


# Caps ---------------------------------------------------------------------------------


def _ladder(state: State, jobs: Ints, pool: Ints, count: Ints) -> Ladder:
    """Return the draw and slowdown at each cap level for jobs on `count` devices of a pool."""
    caps: Any = state.caps.reshape(-1, CAP_LEVELS)[pool]
    watts = state.rates.watts[state.jobs.profile[jobs] * len(state.pools) + pool]
    share = count * state.jobs.milli[jobs] / MILLI_PER_DEVICE
    idle_w = state.pools.idle_w[pool]
    each_w = np.maximum(watts[:, None] * caps.power, idle_w[:, None])
    worth = state.jobs.reference_us[jobs] / np.maximum(state.jobs.estimate_us[jobs], 1.0)
    rate = _rate(state, jobs, pool, count)
    return Ladder(each_w * share[:, None], np.array(caps.slowdown), worth * rate)


def _rate(state: State, jobs: Ints, pool: Ints, count: Ints) -> Floats:
    """Return the estimated progress of jobs on `count` devices of a pool, without caps."""
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
    """Return the part of a host's draw that goes with one device."""
    return np.asarray(state.pools.host_w[pool] / state.pools.capacity[pool])


def _in_time(state: State, draft: PlanDraft, jobs: Ints) -> Floats:
    """Return the largest slowdown at which each job ends within limit and deadline, at least 1."""
    runs: Any = state.runs[jobs]
    limit_us = state.jobs.limit_us[jobs]
    running = runs.status == Status.RUNNING
    ran_us = np.where(running, draft.now_us - runs.began_us, 0)
    slice_us = np.where(running, np.maximum(draft.now_us - runs.ready_us, 0), 0)
    left = np.maximum(state.jobs.estimate_us[jobs] - runs.done_us - slice_us * runs.rate, 1.0)
    left_us = left / _rate(state, jobs, draft.pool[jobs], draft.count[jobs])
    most = np.where(limit_us > 0, (LIMIT_SLACK * limit_us - ran_us) / left_us, np.inf)
    in_time = LIMIT_SLACK * (runs.deadline_us - draft.now_us) / left_us
    most = np.where(runs.deadline_us > 0, np.minimum(most, in_time), most)
    return np.asarray(np.maximum(most, 1.0))


def _must_start_soon(state: State, draft: PlanDraft) -> bool:
    """Return whether a job that must start soon waits for devices, which caps free later."""
    waiting = draft.active[draft.count[draft.active] == 0]
    waiting = waiting[state.runs.deadline_us[waiting] > 0]
    left_us = state.jobs.estimate_us[waiting] - state.runs.done_us[waiting]
    latest_us = state.runs.deadline_us[waiting] - left_us
    return bool((latest_us < draft.now_us + SOON_US).any())


def _within_budget(
    state: State, draft: PlanDraft, jobs: Ints, ladder: Ladder, levels: Ints, budget_w: float
) -> Ints:
    """Return levels that keep the budget and make room for pending jobs that lack power."""
    if not budget_w:
        return levels
    rows = np.arange(len(jobs))
    idle_w = float((state.pools.idle_w[draft.pool[jobs]] * draft.count[jobs]).sum())
    most_w = budget_w - _idle_cluster_w(state) + idle_w
    levels, _ = fit_budget(ladder, levels, most_w)
    for pool, job in _held_up(state, draft):
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


def _has_day_budget(state: State) -> bool:
    clock = state.clock[0]
    return bool(clock.money_per_day > 0 or clock.carbon_g_per_day > 0)


def _budget_w(state: State, rationed_w: float) -> float:
    """Return the draw that the budgets allow now; 0 = there is none."""
    if not _has_day_budget(state):
        return float(state.clock[0].budget_w)
    stated_w = float(state.clock[0].power_budget_w)
    if not np.isfinite(rationed_w):  # electricity is free until midnight
        return stated_w
    return max(LEAST_W, min(stated_w or np.inf, rationed_w))


def _stop_beyond(state: State, draft: PlanDraft, budget_w: float) -> None:
    """Preempt the jobs that started last while the strongest caps do not keep the budget."""
    jobs = draft.active[draft.count[draft.active] > 0]
    if not len(jobs):
        return
    ladder = _ladder(state, jobs, draft.pool[jobs], draft.count[jobs])
    added_w = ladder.watts[:, -1] - state.pools.idle_w[draft.pool[jobs]] * draft.count[jobs]
    total_w = _idle_cluster_w(state) + float(added_w.sum())
    runs: Any = state.runs[jobs]
    began_us = np.where(runs.status == Status.RUNNING, runs.began_us, draft.now_us)
    for at in np.lexsort((-jobs, -began_us)):
        if total_w <= budget_w:
            return
        total_w -= float(added_w[at])
        draft.stop(int(jobs[at]), Reason.OVER_BUDGET, float(added_w[at]))


def _rationed(plan: Records, budget_w: float) -> Records:
    """Return the plan with the limit of the draw that follows from the budgets of the day."""
    out = records(len(plan) + 1, ACTION)
    out[: len(plan)] = plan
    row: Any = out[-1]
    row.kind, row.reason = int(ActionKind.BUDGET), int(Reason.RATIONED)
    row.job, row.node, row.gain = -1, -1, budget_w
    return out


def _idle_cluster_w(state: State) -> float:
    """Return what the nodes that are up draw when idle, as the budget counts it."""
    pools = state.pools[state.nodes.pool[state.nodes.down == 0]]
    return float((pools.host_w + pools.capacity * pools.idle_w).sum())


def _held_up(state: State, draft: PlanDraft) -> list[tuple[int, int]]:
    """Return pending jobs that have devices but were not started, as (pool, job), in order."""
    held_up = []
    free = np.bincount(state.nodes.pool, draft.free, len(state.pools))
    waiting = draft.active[draft.count[draft.active] == 0]
    rates = state.rates.packed.reshape(-1, len(state.pools))
    for job in waiting[: int(free.sum())]:
        devices = int(state.jobs.devices[job])
        runs_in = np.flatnonzero((free >= devices) & (rates[state.jobs.profile[job]] > 0))
        able = [pool for pool in runs_in if devices and draft.room(int(pool), devices)]
        if able:
            free[able[0]] -= devices
            held_up.append((int(able[0]), int(job)))
    return held_up


# Sleep --------------------------------------------------------------------------------


def _best_first(state: State, nodes: Ints, asleep: npt.NDArray[np.bool_]) -> Ints:
    """Sort nodes by which to keep awake: most work per watt first, then those awake."""
    pools = state.pools
    rates: Any = state.rates.reshape(-1, len(pools))
    node_w = rates.watts + (pools.host_w / pools.capacity)[None, :]
    useful = (rates.packed / node_w).mean(axis=0)
    order = np.lexsort((nodes, asleep[nodes], -useful[state.nodes.pool[nodes]]))
    return np.asarray(nodes[order])


def _sleep_w(state: State, node: Any) -> float:
    """Return the watts that a sleeping node saves."""
    pool = state.pools[state.nodes.pool[node]]
    return float(pool.host_w + pool.capacity * pool.idle_w - pool.sleep_w)
