"""Deferrable jobs on a live cluster: held while electricity is expected to get cheaper or cleaner.

A job that states `deferrable_until` waits for the hour at which its energy is expected to cost
least, by the rule that the twin's tuner `defer` uses (`tune.defer.planned_hours`). Each change of
mind is an event, so the journal tells which jobs a decision could start. A job that has started, or
that was released, is not deferred again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from flyball.control.decide.job_slots import expected_s
from flyball.control.jobs.adjustments import held_devices, size_of
from flyball.control.jobs.deadlines import latest_start_us
from flyball.control.jobs.holds import RELEASED, deferral
from flyball.core.events import Deferred, Event, Released
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.jobs import Job, JobState
from flyball.core.results import Floats, Ints
from flyball.core.signals import HOUR_US, Signal
from flyball.core.units import S_PER_HOUR, S_PER_MIN, to_us
from flyball.predict.signals import signal_outlook
from flyball.tune.defer import Defer, planned_hours
from flyball.tune.defer_plan import LONGEST_H
from flyball.tune.signal_costs import HOURS_PER_DAY, costs_of

EVERY_US = to_us(S_PER_MIN)
"""Interval at which the deferred jobs are planned anew."""
UNKNOWN_S = S_PER_HOUR
"""Assumed run time of a job of which nothing is known."""


def varies(signals: Sequence[Signal | None]) -> bool:
    """Return whether any of the signals changes over time: else no job is deferred."""
    return any(signal is not None and not signal.is_flat for signal in signals)


class Deferrals:
    """Decides which jobs wait; `LiveState.watchers` keep its jobs up to date.

    Args:
        signals: price and carbon intensity; None = not given.
        devices: cores or GPUs of the cluster.
        rule: the settings of the rule.
    """

    def __init__(
        self, signals: tuple[Signal | None, Signal | None], devices: int, rule: Defer | None = None
    ) -> None:
        self._signals, self._devices, self._rule = signals, devices, rule or Defer()
        self._jobs: dict[int, Job] = {}
        self._planned: set[int] = set()  # jobs that the last plan included
        self._round = -1
        self.enabled = varies(signals)

    def adopt(self, devices: int) -> None:
        """Take another number of devices of the cluster."""
        self._devices = devices

    def update(self, changes: Mapping[int, Job]) -> None:
        """Take in changed jobs."""
        for job in changes.values():
            if self.enabled and _may_wait(job):
                self._jobs[job.id] = job
            else:
                self._jobs.pop(job.id, None)

    def due(self, active: Iterable[Job], now_us: int) -> list[Event]:
        """Return which jobs are deferred, until another time, or released.

        Args:
            active: all jobs that have not ended.
        """
        is_round = self._round != now_us // EVERY_US
        is_late = any(_latest_us(job) <= now_us for job in self._jobs.values() if deferral(job))
        if not self._jobs or not (is_round or is_late or self._jobs.keys() - self._planned):
            return []
        self._round, self._planned = now_us // EVERY_US, set(self._jobs)
        costs = self._costs(now_us)
        jobs = sorted(self._jobs.values(), key=lambda job: (_latest_us(job), job.id))
        if costs is None:
            return [Released(now_us, job.id, "defer") for job in jobs if deferral(job)]
        mean = float(np.abs(costs[: HOURS_PER_DAY + 1]).mean()) or 1.0
        hours, savings = self._plan(jobs, costs, active, now_us)
        events: list[Event] = []
        for job, hour, saving in zip(jobs, hours.tolist(), savings.tolist(), strict=True):
            events += _events(job, int(hour), float(saving) / mean, now_us)
        return events

    def _costs(self, now_us: int) -> Floats | None:
        price, carbon = self._signals
        price_now = None if price is None else price.value_at(now_us)
        carbon_now = None if carbon is None else carbon.value_at(now_us)
        outlook = signal_outlook(price, carbon, now_us, NO_OUTLOOK)
        return costs_of(price_now, carbon_now, outlook, self._rule.per_kg)

    def _plan(
        self, jobs: Sequence[Job], costs: Floats, active: Iterable[Job], now_us: int
    ) -> tuple[Ints, Floats]:
        """Return in how many hours each job should start, and what waiting saves per kWh."""
        left_h = np.array([max(0, _latest_us(job) - now_us) / HOUR_US for job in jobs])
        room = np.full(int(left_h.max()) + 1 + LONGEST_H, self._rule.fill * self._devices)
        for job in active:
            if job.id not in self._jobs:
                ran_us = max(0, now_us - job.started_us) if job.started_us else 0
                left_s = max(1.0, (expected_s(job) or UNKNOWN_S) - ran_us / 1e6)
                room[: math.ceil(left_s / S_PER_HOUR)] -= held_devices(job) or _asked(job)
        return planned_hours(
            costs,
            room,
            (1.0 - self._rule.guard) * left_h,
            np.array([(expected_s(job) or UNKNOWN_S) / S_PER_HOUR for job in jobs]),
            np.array([float(_asked(job)) for job in jobs]),
            self._rule.margin,
        )


def _events(job: Job, hour: int, saving: float, now_us: int) -> list[Event]:
    """Return the event that gives a job its place in the plan, if that changes."""
    deferred, latest_us = deferral(job), _latest_us(job)
    if hour == 0 or now_us >= latest_us:
        return [Released(now_us, job.id, "defer")] if deferred else []
    until_us = min((now_us + hour * HOUR_US) // HOUR_US * HOUR_US, latest_us)
    if deferred and abs(until_us - deferred["until_us"]) < HOUR_US:
        return []
    return [Deferred(now_us, job.id, until_us, latest_us, round(saving, 4))]


def _may_wait(job: Job) -> bool:
    if job.state != JobState.PENDING or job.attempt or RELEASED in job.values:
        return False
    return bool(job.spec.deferrable_until) and not job.spec.array


def _latest_us(job: Job) -> int:
    """Return its latest start: as stated, or earlier for its deadline."""
    latest_us = to_us(job.spec.deferrable_until)
    if not job.spec.deadline:
        return latest_us
    in_time_us = to_us(job.spec.deadline) - to_us(expected_s(job) or UNKNOWN_S)
    return min(latest_us, in_time_us, latest_start_us(job.spec))


def _asked(job: Job) -> int:
    """Return the devices that a job asks for: GPUs, else cores."""
    return size_of(job) or job.spec.gpus or job.spec.cpus
