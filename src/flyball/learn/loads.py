"""Feeds the series of the cluster's load from the journal's jobs, and sends their forecasts.

The past is derived from the jobs, so a restart loses nothing. `predict.load.live_series` describes
the series; the twin feeds the same ones from its own past (`twin.load_forecast`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from flyball.core.forecast import Outlook
from flyball.core.jobs import Job, JobSpec
from flyball.core.results import Floats, Ints
from flyball.core.units import MILLI_PER_DEVICE, US_PER_S, to_us
from flyball.learn.scalings import TelemetrySeries
from flyball.predict.load.live_series import (
    ARRIVALS,
    LOAD,
    MAX_POINTS,
    PENDING,
    RUNNING,
    UTILISATION,
    LoadSeries,
    SeriesKind,
    devices_at,
)

UTILISATION_SERIES = "compute.total_percent"


class ClusterLoads:
    """Holds all series of one cluster.

    Args:
        devices_of: devices that a job holds while it runs, in thousandths.
        telemetry: the monitor's series; None if there is no monitor.
    """

    def __init__(
        self, devices_of: Callable[[JobSpec], int], telemetry: TelemetrySeries | None = None
    ) -> None:
        self._devices_of, self._telemetry = devices_of, telemetry
        self.series: dict[str, LoadSeries] = {}

    def begin(self, jobs: Iterable[Job], now_us: int) -> None:
        """Derive the past of every series from the jobs."""
        jobs = list(jobs)
        first_us = min((job.submit_us for job in jobs), default=now_us)
        for kind in (
            LOAD,
            ARRIVALS,
            RUNNING,
            PENDING,
            *((UTILISATION,) if self._telemetry else ()),
        ):
            step_us = to_us(kind.step_s)
            start_us = max(first_us, now_us - MAX_POINTS * step_us) // step_us * step_us
            values = self._values(kind, jobs, start_us, (now_us - start_us) // step_us)
            self.series[kind.name] = LoadSeries(kind, start_us / US_PER_S, values)

    @property
    def earliest_step_s(self) -> float:
        """Start of the earliest step that is not over: jobs that ended before it are not needed."""
        series = self.series.values()
        return min((one.next_s - one.kind.step_s for one in series), default=0.0)

    def extend(self, jobs: Iterable[Job], now_us: int) -> None:
        """Bring every series up to now.

        Args:
            jobs: all that were active at any time since the last call.
        """
        jobs = list(jobs)
        for series in self.series.values():
            step_us = to_us(series.kind.step_s)
            start_us = to_us(series.next_s) - step_us
            if now_us >= start_us + step_us:
                count = (now_us - start_us) // step_us
                series.extend(self._values(series.kind, jobs, start_us, count))
        self._catch_up()

    def _catch_up(self) -> None:
        """Let the series take in their values, with at most one fit; the others are due next."""
        fitted = False
        for series in self.series.values():
            if not (fitted and series.fit_due):
                fitted = fitted or series.fit_due
                series.catch_up()

    def messages(self) -> list[dict[str, Any]]:
        """Return the forecasts of all series, as they are sent and shown."""
        messages = (series.message() for series in self.series.values())
        return [message for message in messages if message]

    def outlook(self) -> Outlook:
        """Return what policies and tuners are given."""
        load = self.series.get(LOAD.name)
        return Outlook(load=load.forecast() if load is not None else None)

    def status(self) -> list[dict[str, Any]]:
        """Return the status of every series."""
        return [series.status() for series in self.series.values()]

    def _values(self, kind: SeriesKind, jobs: Sequence[Job], start_us: int, count: int) -> Floats:
        """Return the values of `count` steps, each taken at the end of its step."""
        if kind is UTILISATION:
            return self._utilisation(start_us / US_PER_S, count)
        edges: Ints = start_us + to_us(kind.step_s) * np.arange(count + 1)
        submit = np.array([job.submit_us for job in jobs], np.int64)
        if kind is ARRIVALS:
            return np.diff(np.searchsorted(np.sort(submit), edges)).astype(float)
        end = np.array([job.end_us if job.state.final else math.inf for job in jobs])
        milli = np.array([self._devices_of(job.spec) for job in jobs], np.int64)
        if kind is LOAD:
            return devices_at(submit, end, milli, edges[1:])
        start = np.array([job.first_start_us or _unstarted_us(job) for job in jobs])
        if kind is PENDING:
            one_device = np.full(len(jobs), MILLI_PER_DEVICE)
            return devices_at(submit, np.minimum(start, end), one_device, edges[1:])
        return devices_at(start, end, milli, edges[1:])

    def _utilisation(self, start_s: float, count: int) -> Floats:
        """Return the measured mean of each step; NaN where nothing was measured."""
        assert self._telemetry is not None
        values = np.full(count, np.nan)
        if not count:
            return values
        span_s = (count + 2) * UTILISATION.step_s
        try:
            times_s, measured = self._telemetry(UTILISATION_SERIES, span_s)
        except (OSError, ValueError):
            return values
        slots = np.floor((times_s - start_s) / UTILISATION.step_s).astype(int)
        inside = (slots >= 0) & (slots < count)
        sums = np.bincount(slots[inside], measured[inside], count)
        counts = np.bincount(slots[inside], minlength=count)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _unstarted_us(job: Job) -> float:
    """Return a start for a job without one: never, or its end if it was cancelled."""
    return float(job.end_us) if job.state.final else math.inf
