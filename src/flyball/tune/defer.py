"""Defer: releases deferred jobs when waiting is not expected to save more.

A job that may be deferred is held from its submission on (`twin/defer.py`). In each round this
tuner plans all held jobs, those with least time left first: of the whole hours from now to its
latest start, each takes the one at which its run is expected to cost least and at which the
cluster has devices left for it. A job whose hour is now is released, also if the best hour would
save no more than `margin` of what its run costs on average. A job for which no hour has room is
released at once: it then queues as others do.

The latest start is `defer_us`, or earlier if the job's deadline less the upper quantile of its
predicted run time is earlier. Costs are forecasts as of now (`predict/signals.py`); the plan is made
anew in each round, so a later forecast counts.
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
from flyball.core.units import MILLI_PER_DEVICE, S_PER_HOUR, US_PER_S
from flyball.tune.defer_plan import LONGEST_H, plan_hours
from flyball.tune.signal_costs import HOURS_PER_DAY, hourly_costs

US_PER_HOUR = US_PER_S * S_PER_HOUR


@dataclass(frozen=True)
class Defer:
    """Holds the settings of the tuner.

    Attributes:
        margin: part of its mean cost that a job must be expected to save for it to wait.
        fill: part of the devices that deferred jobs are planned on; the rest is for what comes.
        guard: part of the time to its latest start that is kept free for queueing.
        per_kg: money that a kg of CO2 counts for, if there is a price too.
    """

    margin: float = 0.02
    fill: float = 0.9
    guard: float = 0.1
    per_kg: float = 0.0

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records:
        """Return the plan with releases of deferred jobs added."""
        runs: Any = state.runs
        now_us = int(state.clock[0].now_us)
        held = (runs.status == Status.HELD) & (runs.waiting_on == 0) & (runs.defer_us > now_us)
        jobs: Ints = np.flatnonzero(held)
        if not len(jobs):
            return plan
        costs = hourly_costs(state, outlook, self.per_kg)
        if costs is None:
            return _with_releases(plan, jobs, 0.0)
        run_h = _run_us(state, jobs) / US_PER_HOUR
        latest_us = _latest_us(state, jobs)
        latest_h = (1.0 - self.guard) * np.maximum(0, latest_us - now_us) / US_PER_HOUR
        order = np.lexsort((jobs, latest_us))
        steps = int(latest_h.max()) + 1
        hours, _ = planned_hours(
            costs,
            _room(state, self.fill, steps + LONGEST_H),
            *(column[order] for column in (latest_h, run_h, _devices(state, jobs))),
            self.margin,
        )
        due = np.sort(order[hours == 0])
        below = float(costs[: HOURS_PER_DAY + 1].mean() - costs[0])
        return _with_releases(plan, jobs[due], below)


def planned_hours(
    costs: Floats, room: Floats, latest_h: Floats, run_h: Floats, devices: Floats, margin: float
) -> tuple[Ints, Floats]:
    """Return in how many hours each job should start, and what it saves by waiting, per kWh.

    Args:
        costs: of a kWh now and in 1, 2, ... hours; beyond, the last day repeats.
        room: devices free in each hour from now.
        latest_h, run_h, devices: by job, in the order in which they are planned.
        margin: part of the mean cost of a run that waiting must save.
    """
    size = len(room) + LONGEST_H + 1
    day = costs[-HOURS_PER_DAY:]
    beyond = np.resize(day, max(0, size - len(costs)))
    sums = np.concatenate(([0.0], np.cumsum(np.concatenate((costs, beyond))[:size])))
    mean = float(np.abs(costs[: HOURS_PER_DAY + 1]).mean())
    hours, savings = np.zeros(len(run_h), np.int64), np.zeros(len(run_h))
    left = np.array(room, np.float64)
    args = (np.asarray(column, np.float64) for column in (latest_h, run_h, devices))
    plan_hours(sums, left, *args, margin * mean, hours, savings)
    return hours, savings


# What the state tells -------------------------------------------------------------------


def _run_us(state: State, jobs: Ints) -> Floats:
    """Return the estimated run time of jobs in their fastest pool."""
    rates = state.rates.packed.reshape(-1, len(state.pools)).max(axis=1)
    return np.asarray(state.jobs.estimate_us[jobs] / rates[state.jobs.profile[jobs]])


def _latest_us(state: State, jobs: Ints) -> Ints:
    """Return the latest start of deferred jobs."""
    latest = state.runs.defer_us[jobs]
    deadline = state.runs.deadline_us[jobs]
    upper = state.spreads[jobs, -1] if len(state.spreads) else np.ones(len(jobs))
    by_deadline = deadline - np.ceil(_run_us(state, jobs) * upper).astype(np.int64)
    return np.asarray(np.where(deadline > 0, np.minimum(latest, by_deadline), latest))


def _devices(state: State, jobs: Ints) -> Floats:
    return np.asarray(state.jobs.devices[jobs] * state.jobs.milli[jobs] / MILLI_PER_DEVICE)


def _room(state: State, fill: float, steps: int) -> Floats:
    """Return the devices that running and pending jobs leave free in each hour from now."""
    now_us = int(state.clock[0].now_us)
    up = state.pools.capacity[state.nodes.pool[state.nodes.down == 0]]
    room = np.full(steps, fill * float(up.sum()))
    runs: Any = state.runs
    active = np.flatnonzero((runs.status == Status.PENDING) | (runs.status == Status.RUNNING))
    left = np.maximum(state.jobs.estimate_us[active] - runs.done_us[active], 0.0)
    rate = state.rates.packed.reshape(-1, len(state.pools)).max(axis=1)
    left_us = left / rate[state.jobs.profile[active]]
    ran_us = np.where(runs.status[active] == Status.RUNNING, now_us - runs.ready_us[active], 0)
    ends_h = np.ceil(np.maximum(left_us - ran_us, 1.0) / US_PER_HOUR).astype(np.int64)
    ends_h = np.minimum(ends_h, steps)
    devices = _devices(state, active)
    ended = np.bincount(ends_h, devices, steps + 1)[:steps]
    return np.asarray(room - float(devices.sum()) + np.cumsum(ended))


def _with_releases(plan: Records, jobs: Ints, below: float) -> Records:
    """Return the plan with these jobs released; `below`: the mean cost of a kWh less that now."""
    out = records(len(plan) + len(jobs), ACTION)
    out[: len(plan)] = plan
    added: Any = out[len(plan) :]
    added.kind, added.reason = int(ActionKind.RELEASE), int(Reason.RELEASED)
    added.job, added.node, added.gain = jobs, -1, below
    return out
