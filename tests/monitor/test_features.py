"""Filters and features against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.monitor.features import (
    exponential,
    features,
    median_filter,
    rate,
    rolling_mean,
    smoothed,
)

TIMES = np.arange(0.0, 60.05, 0.1)


def test_rolling_mean() -> None:
    times = np.array([0.0, 1.0, 2.0, 3.0])
    assert rolling_mean(times, np.array([2.0, 4.0, 6.0, 8.0]), 2.0).tolist() == [2, 3, 5, 7]


def test_median_removes_a_spike_and_keeps_a_step() -> None:
    values = np.array([1.0, 1, 1, 90, 1, 1, 5, 5, 5, 5])
    assert median_filter(values, 3).tolist() == [1, 1, 1, 1, 1, 1, 1, 5, 5, 5]
    assert median_filter(values, 1) is values
    assert len(median_filter(np.zeros(0))) == 0


def test_exponential_forgets_half_in_its_half_life() -> None:
    times = np.array([0.0, 2.0, 4.0])
    assert exponential(times, np.array([8.0, 0.0, 0.0]), 2.0).tolist() == [8, 4, 2]


def test_rate() -> None:
    times, values = rate(np.array([0.0, 1, 3, 3, 4]), np.array([0.0, 10, 50, 50, 7]))
    assert times.tolist() == [1, 3, 4]
    assert values.tolist() == [10, 20, 7]  # the last began again at zero


def test_features_of_a_ramp() -> None:
    short, middle, long = features(TIMES, 3.0 * TIMES)
    assert [window.window_s for window in (short, middle, long)] == [1, 10, 60]
    assert [window.samples for window in (short, middle, long)] == [10, 100, 600]
    for window in (short, middle, long):
        assert window.slope == pytest.approx(3.0)
        assert window.mean < window.p95 <= 180.0
    assert long.mean == pytest.approx(3.0 * TIMES[-600:].mean())
    assert long.std == pytest.approx(np.std(3.0 * TIMES[-600:]))


def test_burst() -> None:
    noise = np.random.default_rng(1).normal(50.0, 2.0, len(TIMES))
    assert not any(window.burst for window in features(TIMES, noise))
    noise[TIMES > 59.2] += 40.0
    burst = {window.window_s: window.burst for window in features(TIMES, noise)}
    assert burst == {1.0: False, 10.0: True, 60.0: False}


def test_too_little() -> None:
    (nothing,) = features(np.zeros(0), np.zeros(0), [1.0])
    assert (nothing.samples, nothing.burst) == (0, False)
    assert np.isnan(nothing.mean)
    (one,) = features(np.array([5.0]), np.array([2.0]), [1.0])
    assert (one.samples, one.mean, one.slope, one.burst) == (1, 2.0, 0.0, False)


def test_smoothed_over_seconds() -> None:
    times, values = np.arange(5.0) * 0.5, np.array([1.0, 1, 9, 1, 1])
    assert smoothed(times, values, "none", 1.0) is values
    assert smoothed(times, values, "median", 1.5).tolist() == [1, 1, 1, 1, 1]
    assert smoothed(times, values, "median", 0.1).tolist() == values.tolist()  # of one sample
    assert smoothed(times, values, "mean", 1.0).tolist() == [1, 1, 5, 5, 1]
    assert smoothed(times, values, "exponential", 0.5).tolist() == [1, 1, 5, 3, 2]
    assert smoothed(times[:1], values[:1], "median", 1.0).tolist() == [1]


def test_medians_of_many_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=1000)
    at_once = median_filter(values, 5)
    monkeypatch.setattr("flyball.monitor.features.MOST_AT_ONCE", 50)
    assert median_filter(values, 5).tolist() == at_once.tolist()
