"""The twin's outlook: what the live predictor would have said at that instant, from what it knew.

The live worker feeds its load series from the journal's jobs (`learn.loads`), this file feeds the
same series from the jobs of a twin: the devices that submitted jobs hold or ask for, at the end of
every minute. Nothing after the instant is read.
"""

from __future__ import annotations

import numpy as np

from flyball.core.codes import Status
from flyball.core.forecast import Outlook
from flyball.core.results import Ints
from flyball.core.state import State
from flyball.core.units import FOREVER_US, US_PER_S, to_us
from flyball.predict.load.live_series import LOAD, LoadSeries, devices_at

STEP_US = to_us(LOAD.step_s)


class LoadForecast:
    """Forecasts the load of one run of a twin, in order of time.

    What it returns depends on the state alone. The series so far is kept only because to derive it
    anew in every round would take long; a clone of the twin has its own (`fresh`).

    Args:
        origin_s: when the twin's time 0 is, in seconds since 1970. It sets hours and weekdays.
    """

    def __init__(self, origin_s: float = 0.0) -> None:
        self._origin_us = to_us(origin_s)
        self._series: LoadSeries | None = None
        self._submitted = 0
        self._active: Ints = np.zeros(0, np.int64)

    def fresh(self) -> LoadForecast:
        """Return the same for another twin."""
        return LoadForecast(self._origin_us / US_PER_S)

    def __call__(self, state: State) -> Outlook:
        """Return the outlook at the state's instant."""
        now_us = int(state.clock[0].now_us) + self._origin_us
        if self._series is None:
            first_us = int(state.jobs.submit_us[0]) + self._origin_us
            self._series = LoadSeries(LOAD, first_us // STEP_US * STEP_US / US_PER_S, ())
        start_us = to_us(self._series.next_s) - STEP_US
        count = max(0, (now_us - start_us) // STEP_US)
        if count:
            edges_us: Ints = start_us + STEP_US * np.arange(1, count + 1)
            self._series.extend(self._devices_at(state, edges_us - self._origin_us))
            self._series.catch_up()
        return Outlook(load=self._series.forecast())

    def _devices_at(self, state: State, edges_us: Ints) -> list[float]:
        """Return the load at these instants; the last one is at most now."""
        jobs, runs = state.jobs.view(np.ndarray), state.runs.view(np.ndarray)
        submitted = int(np.searchsorted(jobs["submit_us"], edges_us[-1], side="right"))
        there = np.append(self._active, np.arange(self._submitted, submitted))
        ended = runs["status"][there] >= Status.DONE
        end_us = np.where(ended, runs["end_us"][there], FOREVER_US)
        milli = jobs["devices"][there].astype(np.int64) * jobs["milli"][there]
        values = devices_at(jobs["submit_us"][there], end_us, milli, edges_us)
        self._active, self._submitted = there[end_us > edges_us[-1]], submitted
        return values.tolist()  # type: ignore[no-any-return]
