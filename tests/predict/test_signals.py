"""Forecasts of price and carbon: exact where public, else a day before with honest errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.core.forecast import NO_OUTLOOK
from flyball.core.signals import DAY_US, HOUR_US, DayAhead, Signal
from flyball.predict.signals import STEPS, forecast_signal, signal_outlook


def series(days: int, known_ahead: int | DayAhead = 0, seed: int = 1) -> Signal:
    """Return a daily swing with noise, hourly from 1970-01-01."""
    hours = np.arange(24 * days)
    noise = np.random.default_rng(seed).normal(0, 5, len(hours))
    values = 100 + 30 * np.sin(hours / 24 * 2 * np.pi) + noise
    return Signal.series("s", hours.astype(np.int64) * HOUR_US, values, 0, known_ahead)


def test_a_tariff_is_known_for_ever() -> None:
    tariff = Signal.profile(np.arange(24.0).tolist(), DAY_US)
    forecast = forecast_signal(tariff, 10 * HOUR_US)
    assert forecast is not None
    assert forecast.mean.tolist() == [(11 + hour) % 24 for hour in range(STEPS)]
    assert (forecast.quantiles == forecast.mean).all()
    assert forecast.step_s == 3600.0


def test_day_ahead_prices_are_exact_to_midnight() -> None:
    signal = series(60, DayAhead())
    now_us = 40 * DAY_US + 14 * HOUR_US  # tomorrow is published: 34 h are public
    forecast = forecast_signal(signal, now_us)
    assert forecast is not None
    true = signal.values_at(now_us + HOUR_US * np.arange(1, STEPS + 1))
    public = np.arange(1, STEPS + 1) < 34
    assert forecast.mean[public].tolist() == true[public].tolist()
    assert (forecast.quantiles[0, public] == forecast.quantiles[2, public]).all()
    assert (forecast.quantiles[0, ~public] < forecast.quantiles[2, ~public]).all()


def test_beyond_it_is_the_same_hour_of_the_latest_public_day() -> None:
    signal = series(60)
    now_us = 40 * DAY_US + HOUR_US // 2
    forecast = forecast_signal(signal, now_us)
    assert forecast is not None
    past = signal.values_at(now_us - DAY_US + HOUR_US * np.arange(1, 25))
    gap = forecast.row(0.5)[:24] - past
    assert gap == pytest.approx(gap[0])  # only the median error is added
    two_days = signal.values_at(now_us - 2 * DAY_US + HOUR_US * np.arange(25, STEPS + 1))
    gap = forecast.row(0.5)[24:] - two_days
    assert gap == pytest.approx(gap[0])


def test_bands_hold_what_they_say() -> None:
    signal = series(120, seed=4)
    inside = []
    for hour in range(40 * 24, 110 * 24, 7):
        forecast = forecast_signal(signal, hour * HOUR_US)
        assert forecast is not None
        true = signal.values_at(hour * HOUR_US + HOUR_US * np.arange(1, STEPS + 1))
        inside.append((forecast.quantiles[0] <= true) & (true <= forecast.quantiles[2]))
    assert 0.87 < np.mean(inside) < 0.93


def test_there_is_none_before_a_day_was_seen() -> None:
    assert forecast_signal(series(60), 20 * HOUR_US) is None
    assert forecast_signal(series(60, 40 * HOUR_US), 20 * HOUR_US) is not None
    assert forecast_signal(None, 0) is None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(0, 50 * 24),
    st.sampled_from((0, 17, HOUR_US - 1)),
    st.sampled_from((0, 6 * HOUR_US, 24 * HOUR_US, DayAhead())),
)
def test_no_forecast_uses_what_is_not_public(
    hour: int, past_us: int, known_ahead: int | DayAhead
) -> None:
    signal = series(60, known_ahead)
    now_us = hour * HOUR_US + past_us
    values = signal.values.copy()
    values[signal.times_us >= max(signal.known_until_us(now_us), now_us + 1)] = 1e5
    changed = replace(signal, values=values)
    before, after = forecast_signal(signal, now_us), forecast_signal(changed, now_us)
    if before is None or after is None:
        assert before is after
        return
    assert before.quantiles.tolist() == after.quantiles.tolist()
    assert before.mean.tolist() == after.mean.tolist()


def test_an_outlook_keeps_its_other_subjects() -> None:
    forecast = forecast_signal(Signal.flat(1.0), 0)
    base = NO_OUTLOOK._replace(load=forecast)
    outlook = signal_outlook(Signal.flat(2.0), None, 0, base)
    assert outlook.load is forecast
    assert outlook.price is not None
    assert outlook.price.at(0.5, 60.0) == 2.0
    assert outlook.carbon is None
