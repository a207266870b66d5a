"""Defer: releases deferred jobs when waiting is not expected to save more.

A job that may be deferred is held from its submission on (`twin/defer.py`). In each round this
tuner plans all held jobs, those with least time left first: of the whole hours from now to its
latest start, each takes the one at which its run is expected to cost least and at which the
cluster has devices left for it. A job whose hour is now is released, also if the best hour would
save no more than `margin` of what its run costs on average. A job for which no hour has room is
released at once: it then queues as others do. With `pause`, a running job that could have been
deferred is planned as well, and preempted and held if a later hour saves that much of its rest.

The latest start is `defer_us`, or earlier if the job's deadline less the upper quantile of its
predicted run time is earlier. Costs are forecasts as of now (`predict/signals.py`); the plan is
made anew in each round, so a later forecast counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flyball.core.codes import ActionKind, Reason, Status
from flyball.core.protocols import Outlook
from flyball.core.records import ACTION, Records, records
from flyball.core.results import Floats, Ints
from flyball.core.state import State
from flyball.core.units import FOREVER_US, MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S, to_us
from flyball.tune.defer_plan import LONGEST_H, plan_hours
from flyball.tune.signal_costs import HOURS_PER_DAY, hourly_costs

US_PER_HOUR = US_PER_S * S_PER_HOUR
LEAST_US = to_us(S_PER_HOUR)
"""Least time that a job has run since its start, has left and could wait, for it to be paused."""


@dataclass(frozen=True)
class Defer:
    """Holds the settings of the tuner.

    Attributes:
        margin: part of its mean cost that a job must be expected to save for it to wait.
        fill: part of the devices that deferred jobs are planned on; the rest is for what comes.
        guard: part of the time to its latest start that is kept free for queueing.
        per_kg: money that a kg of CO2 counts for, if there is a price too.
        pause: part of its mean cost that the rest of a running job must be expected to save for it
            to be paused; 0 = running jobs are not paused.
        pauses: most preemptions of a job for that.
        stretch: factor on the predicted run time that is kept free before a deadline; above 1 it
            leaves room for caps.
    """

    margin: float = 0.02
    fill: float = 0.7
    guard: float = 0.1
    per_kg: float = 0.0
    pause: float = 0.0
    pauses: int = 4
    stretch: float = 1.0

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with releases of deferred jobs added."""
        held, running = _held(state), self._running(state, plan)
        if not len(held) and not len(running):
            return plan
        costs = hourly_costs(state, outlook, self.per_kg)
        if costs is None:
            return _with_releases(plan, held, 0.0)
        # Running jobs come first: they have their devices.
        jobs = np.concatenate((running, held))
        latest_us = _latest_us(state, jobs, self.stretch)
        order = np.lexsort((jobs, latest_us, np.arange(len(jobs)) >= len(running)))
        jobs, latest_us = jobs[order], latest_us[order]
        left_us = np.maximum(0, latest_us - int(state.clock[0].now_us))
        latest_h = (1.0 - self.guard) * left_us / US_PER_HOUR
        hours, savings = planned_hours(
            costs,
            _room(state, running, self.fill, int(latest_h.max()) + 1 + LONGEST_H),
            latest_h,
            _left_us(state, jobs) / US_PER_HOUR,
            _devices(state, jobs),
            np.where(np.arange(len(jobs)) < len(running), self.pause, self.margin),
        )
        below = float(costs[: HOURS_PER_DAY + 1].mean() - costs[0])
        later = hours > 0
        released = np.sort(jobs[len(running) :][~later[len(running) :]])
        paused = np.flatnonzero(later[: len(running)])
        plan = _with_pauses(plan, jobs[paused], latest_us[paused], savings[paused])
        return _with_releases(plan, released, below)

    def _running(self, state: State, plan: Records) -> Ints:
        """Return the running jobs that may be paused."""
        if not self.pause:
            return np.zeros(0, np.int64)
        runs: Any = state.runs
        now_us = int(state.clock[0].now_us)
        able = (runs.status == Status.RUNNING) & (runs.deadline_us > 0)
        able &= (runs.preemptions < self.pauses) & (now_us - runs.ready_us >= LEAST_US)
        jobs = np.flatnonzero(able)
        long = _left_us(state, jobs) >= LEAST_US
        in_time = _latest_us(state, jobs, self.stretch) - now_us >= LEAST_US
        return np.setdiff1d(jobs[long & in_time], plan["job"])


def planned_hours(
    costs: Floats,
    room: Floats,
    latest_h: Floats,
    run_h: Floats,
    devices: Floats,
    margin: Floats | float,
) -> tuple[Ints, Floats]:
    """Return in how many hours each job should start, and what it saves by waiting, per kWh.

    Args:
        costs: of a kWh now and in 1, 2, ... hours; beyond, the last day repeats.
        room: devices free in each hour from now.
        latest_h, run_h, devices: by job, in the order in which they are planned.
        margin: part of the mean cost of a run that waiting must save, for all or by job.
    """
    steps = len(room) + LONGEST_H + 1
    day = costs[-HOURS_PER_DAY:]
    beyond = np.resize(day, max(0, steps - len(costs)))
    sums = np.concatenate(([0.0], np.cumsum(np.concatenate((costs, beyond))[:steps])))
    mean = float(np.abs(costs[: HOURS_PER_DAY + 1]).mean())
    hours, savings = np.zeros(len(run_h), np.int64), np.zeros(len(run_h))
    left = np.array(room, np.float64)
    latest, length, size = (np.asarray(column, np.float64) for column in (latest_h, run_h, devices))
    margins = np.asarray(np.broadcast_to(margin, len(run_h)) * mean, np.float64)
    plan_hours(sums, left, latest, length, size, margins, hours, savings)
    return hours, savings


# What the state tells -------------------------------------------------------------------


def _held(state: State) -> Ints:
    """Return the jobs that are held back and for no other reason."""
    runs: Any = state.runs
    waits = (runs.status == Status.HELD) & (runs.waiting_on == 0)
    return np.flatnonzero(waits & (runs.defer_us > int(state.clock[0].now_us)))


def _left_us(state: State, jobs: Ints) -> Floats:
    """Return the estimated time that jobs still take, where they run or in their fastest pool."""
    runs: Any = state.runs[jobs]
    now_us = int(state.clock[0].now_us)
    fastest = state.rates.packed.reshape(-1, len(state.pools)).max(axis=1)
    runs_now = runs.status == Status.RUNNING
    ran_us = np.where(runs_now, np.maximum(0, now_us - runs.ready_us), 0)
    rate = np.where(runs_now, runs.rate, fastest[state.jobs.profile[jobs]])
    done_us = runs.done_us + ran_us * runs.rate
    left = np.maximum(state.jobs.estimate_us[jobs] - done_us, US_PER_S)
    return np.asarray(left / np.maximum(rate, 1e-12))


def _latest_us(state: State, jobs: Ints, stretch: float) -> Ints:
    """Return until when jobs can be held: by `defer_us`, and so that they end by their deadline."""
    latest, deadline = state.runs.defer_us[jobs], state.runs.deadline_us[jobs]
    latest = np.where(latest > 0, latest, FOREVER_US)
    upper = state.spreads[jobs, -1] if len(state.spreads) else np.ones(len(jobs))
    needs_us = _left_us(state, jobs) * upper * stretch + state.jobs.restart_us[jobs]
    by_deadline = deadline - np.ceil(needs_us).astype(np.int64)
    return np.asarray(np.where(deadline > 0, np.minimum(latest, by_deadline), latest))


def _devices(state: State, jobs: Ints) -> Floats:
    return np.asarray(state.jobs.devices[jobs] * state.jobs.milli[jobs] / MILLI_PER_DEVICE)


def _room(state: State, planned: Ints, fill: float, steps: int) -> Floats:
    """Return the devices that running and pending jobs leave free in each hour from now.

    Args:
        planned: running jobs that do not count: they are planned.
    """
    up = state.pools.capacity[state.nodes.pool[state.nodes.down == 0]]
    room = np.full(steps, fill * float(up.sum()))
    runs: Any = state.runs
    active = np.flatnonzero((runs.status == Status.PENDING) | (runs.status == Status.RUNNING))
    active = np.setdiff1d(active, planned)
    ends_h = np.ceil(_left_us(state, active) / US_PER_HOUR).astype(np.int64)
    devices = _devices(state, active)
    ended = np.bincount(np.minimum(ends_h, steps), devices, steps + 1)[:steps]
    return np.asarray(room - float(devices.sum()) + np.cumsum(ended))


def _with_pauses(plan: Records, jobs: Ints, until_us: Ints, savings: Floats) -> Records:
    """Return the plan with these running jobs preempted and held."""
    out = records(len(plan) + 2 * len(jobs), ACTION)
    out[: len(plan)] = plan
    stops: Any = out[len(plan) : len(plan) + len(jobs)]
    stops.kind, stops.reason = int(ActionKind.PREEMPT), int(Reason.PAUSED)
    stops.job, stops.node, stops.gain = jobs, -1, savings
    holds: Any = out[len(plan) + len(jobs) :]
    holds.kind, holds.reason = int(ActionKind.DEFER), int(Reason.PAUSED)
    holds.job, holds.node, holds.gain = jobs, -1, until_us
    return out


def _with_releases(plan: Records, jobs: Ints, below: float) -> Records:
    """Return the plan with these jobs released; `below`: the mean cost of a kWh less that now."""
    out = records(len(plan) + len(jobs), ACTION)
    out[: len(plan)] = plan
    added: Any = out[len(plan) :]
    added.kind, added.reason = int(ActionKind.RELEASE), int(Reason.RELEASED)
    added.job, added.node, added.gain = jobs, -1, below
    return out
