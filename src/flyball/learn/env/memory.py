"""What an observation holds besides the present state: forecasts with bands and the last epochs.

The same code serves the environments, replays and live decisions. A memory is a function of the
numbers it was given, so that recorded decisions can be made again.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from flyball.core.forecast import Forecast
from flyball.core.signals import HOUR_US, Signal
from flyball.learn.env.pattern import PATTERN, QUEUE
from flyball.learn.env.spaces import (
    AHEAD_H,
    BANDS,
    BOUND,
    RECENT,
    RECENT_EPOCHS,
    SIZE,
    SLICES,
    SUBJECTS,
    Floats,
    Ints,
    Vector,
)
from flyball.predict.signals import forecast_signal
from flyball.twin.stepping.fields import OBSERVATION

PLACES = {field.name: at for at, field in enumerate(OBSERVATION)}
"""Where a number of the cluster's part is, by its name."""
DAY_H = 24
DAYS_KEPT = 2
"""Days of load that forecasts are made from."""
TRUST_H = 6.0
"""Hours ahead at which the load of now counts about a third, and that of yesterday the rest."""
BAND = 1.645
"""Standard deviations from the middle to the 5 % and 95 % quantiles."""
SIGNALS = ("price", "carbon")
_RECENT_PLACES = [PLACES[name] for name in RECENT]


class Outside:
    """Returns what is public of price and carbon as numbers of an observation.

    A forecast is that of the last whole hour, so that twins of one signal share it.
    """

    def __init__(self, price: Signal | None, carbon: Signal | None) -> None:
        """
        Args:
            price, carbon: on the clock of the instants asked for; None = not given.
        """
        self._signals = (price, carbon)

    def numbers(self, now_us: int) -> Floats:
        """Return for each signal its value now, then its forecast (hours ahead x bands).

        All are relative to the mean of the coming day.
        """
        out = np.zeros((len(SIGNALS), 1 + len(AHEAD_H) * len(BANDS)))
        for row, signal in enumerate(self._signals):
            if signal is None:
                continue
            forecast = _hourly(signal, now_us // HOUR_US)
            if forecast is None:
                out[row, 0] = 1.0
                continue
            mean = float(forecast.mean[:DAY_H].mean())
            if mean <= 0.0:
                continue
            out[row, 0] = signal.value_at(now_us) / mean
            ahead = forecast.quantiles[:, [hours - 1 for hours in AHEAD_H]] / mean
            out[row, 1:] = ahead.T.reshape(-1)
        return out


@lru_cache(maxsize=4096)
def _hourly(signal: Signal, hour: int) -> Forecast | None:
    """Return the forecast of a signal as of a whole hour; signals are equal if their keys are."""
    return forecast_signal(signal, hour * HOUR_US)


class Memory:
    """Holds the last epochs of some runs, and makes observations from them."""

    def __init__(self, runs: int, epoch_s: float) -> None:
        """
        Args:
            runs: how many are remembered side by side.
            epoch_s: length of an epoch.
        """
        self.epoch_s = epoch_s
        self._day = max(1, round(DAY_H * 3600.0 / epoch_s))
        self._loads = np.full((runs, DAYS_KEPT * self._day), np.nan)
        self._recent = np.zeros((runs, RECENT_EPOCHS, len(RECENT)), np.float32)

    def reset(self, run: int) -> None:
        """Forget a run."""
        self._loads[run] = np.nan
        self._recent[run] = 0.0

    def observe(
        self, runs: Ints, cluster: Floats, pattern: Floats, outside: Floats, priorities: Floats
    ) -> Vector:
        """Return the observations at the end of an epoch, a row per run, and remember them.

        Args:
            runs: whose they are.
            cluster: numbers of `stepping.fields.OBSERVATION`.
            pattern: rows of `pattern.write_pattern`.
            outside: `Outside.numbers` of each run.
            priorities: weights of each run.
        """
        out = np.zeros((len(cluster), SIZE), np.float32)
        seen = cluster.copy()
        seen[:, [PLACES[name] for name in SIGNALS]] = outside[:, :, 0]
        self._note(runs, seen)
        out[:, SLICES["pattern"]] = pattern[:, :PATTERN]
        out[:, SLICES["queue"]] = pattern[:, PATTERN : PATTERN + QUEUE]
        out[:, SLICES["cluster"]] = seen
        bands = outside[:, :, 1:].reshape(len(seen), len(SIGNALS), len(AHEAD_H), len(BANDS))
        forecast = np.concatenate([bands, self._load_bands(runs)[:, None]], axis=1)
        assert forecast.shape[1:] == (len(SUBJECTS), len(AHEAD_H), len(BANDS))
        out[:, SLICES["forecast"]] = forecast.reshape(len(seen), -1)
        out[:, SLICES["recent"]] = self._recent[runs].reshape(len(seen), -1)
        out[:, SLICES["priorities"]] = priorities
        np.nan_to_num(out, copy=False, nan=0.0, posinf=BOUND, neginf=-BOUND)
        return np.clip(out, -BOUND, BOUND, out=out)

    def _note(self, runs: Ints, seen: Floats) -> None:
        """Remember the end of an epoch."""
        load = seen[:, PLACES["used"]] + np.expm1(seen[:, PLACES["pending_devices"]])
        self._loads[runs, :-1] = self._loads[runs, 1:]
        self._loads[runs, -1] = np.minimum(load, BOUND)
        self._recent[runs, 1:] = self._recent[runs, :-1]
        self._recent[runs, 0] = np.clip(seen[:, _RECENT_PLACES], -BOUND, BOUND)

    def _load_bands(self, runs: Ints) -> Floats:
        """Return the bands of the load: that of now, fading into that of the day before.

        The band is as wide as the load's changes over the same time have been.
        """
        loads, day = self._loads[runs], self._day
        now = loads[:, -1]
        bands = np.zeros((len(loads), len(AHEAD_H), len(BANDS)))
        for at, hours in enumerate(AHEAD_H):
            lead = max(1, round(hours * 3600.0 / self.epoch_s))
            before = loads[:, loads.shape[1] - 1 - day + lead % day]
            before = np.where(np.isnan(before), now, before)
            weight = np.exp(-hours / TRUST_H)
            middle = weight * now + (1.0 - weight) * before
            changes = loads[:, lead:] - loads[:, : loads.shape[1] - lead]
            known = ~np.isnan(changes)
            count = np.maximum(1, known.sum(axis=1))
            square = np.where(known, changes, 0.0) ** 2
            spread = BAND * np.sqrt(square.sum(axis=1) / count)
            bands[:, at] = np.stack(
                [np.maximum(0.0, middle - spread), middle, middle + spread], axis=1
            )
        return bands
