"""Signals over time: values, integrals, what repeats, what is known ahead."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.core.signals import (
    DAY_US,
    FIRST_MONDAY_US,
    HOUR_US,
    WEEK_US,
    DayAhead,
    Signal,
)

HOURS = np.arange(24, dtype=float)


def series(values: list[float], begin_us: int = 0, step_us: int = HOUR_US) -> Signal:
    times = begin_us + np.arange(len(values), dtype=np.int64) * step_us
    return Signal.series("s", times, np.array(values, float))


def test_a_constant_is_a_flat_signal() -> None:
    signal = Signal.flat(0.25)
    assert signal.is_flat
    assert signal.value_at(-(10**15)) == signal.value_at(10**17) == 0.25
    assert signal.integral(5, 1_000_005) == 0.25 * 1_000_000


def test_a_daily_profile_repeats_before_and_after_its_first_day() -> None:
    signal = Signal.profile(HOURS.tolist(), DAY_US)
    for day in (-3, 0, 1, 20_000):
        noon_us = day * DAY_US + 12 * HOUR_US
        assert signal.value_at(noon_us) == 12.0
        assert signal.value_at(noon_us - 1) == 11.0
    assert signal.integral(0, DAY_US) == 276.0 * HOUR_US
    assert signal.integral(-7 * DAY_US + 1, 3 * DAY_US + 1) == pytest.approx(2760.0 * HOUR_US)


def test_an_offset_moves_local_midnight() -> None:
    signal = Signal.profile(HOURS.tolist(), DAY_US, offset_us=HOUR_US)  # UTC+1
    assert signal.value_at(11 * HOUR_US) == 12.0


def test_a_weekly_profile_begins_on_a_monday() -> None:
    signal = Signal.profile([1.0] * 120 + [2.0] * 48, WEEK_US)
    assert signal.value_at(FIRST_MONDAY_US - 1) == 2.0  # a Sunday
    assert signal.value_at(FIRST_MONDAY_US) == 1.0


def test_integral_over_steps_is_the_sum_of_their_parts() -> None:
    signal = series([10.0, 20.0, 40.0])
    half_us = HOUR_US // 2
    assert signal.integral(half_us, 2 * HOUR_US + half_us) == (5 + 20 + 20) * HOUR_US


def test_a_short_series_holds_its_nearest_value() -> None:
    signal = series([10.0, 20.0])
    assert signal.period_us == 0
    assert (signal.value_at(-1), signal.value_at(10**15)) == (10.0, 20.0)
    assert signal.integral(-HOUR_US, 3 * HOUR_US) == (10 + 10 + 20 + 20) * HOUR_US


def test_beyond_its_dates_the_nearest_week_repeats() -> None:
    values = np.arange(24 * 10, dtype=float)
    signal = series(values.tolist())
    assert signal.period_us == WEEK_US
    assert signal.value_at(240 * HOUR_US) == 240 - 168
    assert signal.value_at(-HOUR_US) == 167.0
    begin, end = -200, 700
    expected = sum(signal.value_at(hour * HOUR_US) for hour in range(begin, end))
    assert signal.integral(begin * HOUR_US, end * HOUR_US) == pytest.approx(expected * HOUR_US)
    said = signal.alignment(0, 0, 300 * HOUR_US)
    assert len(said) == 1
    assert "nearest week repeats" in said[0]
    assert signal.alignment(0, 0, 240 * HOUR_US) == []


def test_a_trace_without_dates_begins_on_the_series_first_monday() -> None:
    signal = series([1.0] * 24 * 14, begin_us=365 * DAY_US)  # 1971-01-01, a Friday
    assert signal.origin_us == 368 * DAY_US
    assert signal.on_clock(None).begin_us == -3 * DAY_US
    assert signal.on_clock(366 * DAY_US).begin_us == -DAY_US
    assert "1971-01-04" in signal.alignment(None, 0, HOUR_US)[0]


def test_gaps_are_held_by_the_value_before() -> None:
    times = np.array([0, 1, 5], np.int64) * HOUR_US
    signal = Signal.series("s", times, np.array([1.0, 2.0, 3.0]))
    assert signal.step_us == 0
    assert signal.integral(0, 6 * HOUR_US) == (1 + 4 * 2 + 3) * HOUR_US


def test_day_ahead_prices_are_published_at_one() -> None:
    rule = DayAhead()
    assert rule.until_us(13 * HOUR_US - 1) == DAY_US
    assert rule.until_us(13 * HOUR_US) == 2 * DAY_US
    shifted = series([1.0] * 48).shifted(5)
    assert shifted.known_until_us(7) == 7
    local = Signal.series(
        "p", np.array([0], np.int64), np.array([1.0]), 0, DayAhead(offset_us=HOUR_US)
    )
    assert local.known_until_us(12 * HOUR_US) == 2 * DAY_US - HOUR_US
    assert local.shifted(3).known_until_us(12 * HOUR_US + 3) == 2 * DAY_US - HOUR_US + 3


def test_signals_are_equal_by_content() -> None:
    first, second = series([1.0, 2.0]), series([1.0, 2.0])
    assert first == second
    assert hash(first) == hash(second)
    assert first != series([1.0, 3.0])
    assert pickle.loads(pickle.dumps(first)) == first
    assert "1970-01-01" in repr(first)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(-50, 500), min_size=1, max_size=5),
    st.lists(st.integers(1, 50), min_size=5, max_size=5),
    st.integers(-300, 300),
    st.integers(0, 400),
    st.sampled_from((0.0, 0.3, 1.0)),
)
def test_integral_is_the_sum_over_every_microsecond(
    values: list[int], lengths: list[int], begin: int, length: int, repeats: float
) -> None:
    bounds = np.cumsum([0, *lengths[: len(values)]]).astype(np.int64)
    period = int(repeats * bounds[-1])
    signal = Signal("s", bounds[:-1], np.array(values, float), int(bounds[-1]), period)
    total = sum(signal.value_at(time) for time in range(begin, begin + length))
    assert signal.integral(begin, begin + length) == total
    times = np.arange(begin, begin + length, dtype=np.int64)
    assert signal.values_at(times).tolist() == [signal.value_at(time) for time in times.tolist()]
