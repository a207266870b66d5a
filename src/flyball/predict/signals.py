"""Forecasts of price and carbon: what is public ahead, then the same hour of a day before.

Up to the instant to which a series is published, its own values are the forecast, with no error.
Beyond, the forecast is the value at the same time of the latest day that is public, with the
quantiles of the errors that this rule made over the last four weeks. Nothing that was not public
at `now` is used.
"""

from __future__ import annotations

import numpy as np

from flyball.core.forecast import Forecast, Outlook
from flyball.core.results import Floats, Ints
from flyball.core.signals import DAY_US, HOUR_US, Signal
from flyball.core.units import S_PER_HOUR

STEPS = 36
"""Hours of the forecast: from noon to the end of the next day."""
LEVELS = (0.05, 0.5, 0.95)
HISTORY_HOURS = 28 * 24
"""Past hours over which the errors of the rule are taken."""
LEAST_HOURS = 24
"""Hours of errors without which there is no forecast beyond what is public."""


def signal_outlook(
    price: Signal | None, carbon: Signal | None, now_us: int, base: Outlook
) -> Outlook:
    """Return an outlook with the forecasts of the signals added, as of an instant."""
    return base._replace(
        price=base.price or forecast_signal(price, now_us),
        carbon=base.carbon or forecast_signal(carbon, now_us),
    )


def forecast_signal(signal: Signal | None, now_us: int) -> Forecast | None:
    """Return the hourly forecast of a signal; None if nothing can be said of some hour of it."""
    if signal is None:
        return None
    times_us = now_us + HOUR_US * np.arange(1, STEPS + 1, dtype=np.int64)
    hidden_us = max(signal.known_until_us(now_us), now_us + 1)  # the first instant not public
    # Days back to the latest day whose value is public: 0 = the value itself is.
    days = np.maximum(0, (times_us - hidden_us) // DAY_US + 1)
    values = signal.values_at(times_us - days * DAY_US)
    rows, mean = np.tile(values, (len(LEVELS), 1)), values.copy()
    for back in np.unique(days[days > 0]).tolist():
        errors = _errors(signal, now_us, back)
        if len(errors) < LEAST_HOURS:
            return None
        at = days == back
        rows[:, at] += np.quantile(errors, LEVELS)[:, None]
        mean[at] += errors.mean()
    return Forecast(LEVELS, rows, mean, S_PER_HOUR)


def _errors(signal: Signal, now_us: int, days: int) -> Floats:
    """Return how far past values were from those so many days before them."""
    times_us: Ints = now_us - HOUR_US * np.arange(HISTORY_HOURS, dtype=np.int64)
    times_us = times_us[times_us - days * DAY_US >= signal.begin_us]
    return signal.values_at(times_us) - signal.values_at(times_us - days * DAY_US)
