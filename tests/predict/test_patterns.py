"""Existing patterns are found, and noise has none."""

from __future__ import annotations

import numpy as np

from flyball.predict.patterns import find_patterns
from flyball.predict.series import Series


def series(values: object, step_s: float = 3_600.0) -> Series:
    return Series("a", 0.0, step_s, np.asarray(values, float))


def test_a_day_is_found() -> None:
    hours = np.arange(24 * 28)
    noise = np.random.default_rng(1).normal(size=len(hours))
    patterns = find_patterns(series(10 + 4 * np.sin(hours * 2 * np.pi / 24) + noise))
    assert patterns.seasons[0].name == "day"
    assert 0.7 < patterns.seasons[0].strength < 1.0
    assert not patterns.changes
    assert patterns.drift_per_day == 0.0
    assert "repeats every day" in patterns.sentences(3_600.0)[0]


def test_another_period_is_found_where_no_named_one_is() -> None:
    steps = np.arange(3_000)
    patterns = find_patterns(series(np.sin(steps * 2 * np.pi / 37), 1.0))
    assert round(patterns.seasons[0].period_s) in (37, 74)


def test_noise_has_no_patterns() -> None:
    for seed in range(20):
        patterns = find_patterns(series(np.random.default_rng(seed).normal(50, 5, 1_200)))
        assert not patterns.seasons
        assert not patterns.changes
        assert patterns.drift_per_day == 0.0
        assert patterns.sentences(3_600.0) == ["no pattern beyond chance"]


def test_shifts_of_level_are_found_where_they_are() -> None:
    noise = np.random.default_rng(2).normal(size=1_200)
    values = np.concatenate([np.full(500, 10.0), np.full(400, 20.0), np.full(300, 5.0)]) + noise
    patterns = find_patterns(series(values))
    assert len(patterns.changes) == 2
    first, second = patterns.changes
    assert abs(first.at - 500) <= 6
    assert abs(second.at - 900) <= 6
    assert abs(first.after - 20) < 1
    assert abs(second.after - 5) < 1


def test_bursts_are_found() -> None:
    values = np.random.default_rng(3).normal(10, 1, 1_000)
    values[300:303], values[700] = 100.0, 60.0
    patterns = find_patterns(series(values))
    assert [(burst.start, burst.steps) for burst in patterns.bursts] == [(300, 3), (700, 1)]
    assert patterns.bursts[0].peak == 100.0


def test_drift_is_found_and_has_the_right_size() -> None:
    hours = np.arange(24 * 40)
    values = 100 + hours / 24 * 0.3 + np.random.default_rng(4).normal(0, 0.5, len(hours))
    patterns = find_patterns(series(values))
    if not patterns.changes:  # a slow rise may also be cut in steps; then each part hardly drifts
        assert abs(patterns.drift_per_day - 0.3) < 0.05


def test_constant_short_and_missing_series_have_no_patterns_and_do_no_harm() -> None:
    assert find_patterns(series(np.full(50, 3.0))).sentences(1.0) == ["constant"]
    assert not find_patterns(series([1.0, 2.0])).seasons
    assert find_patterns(series(np.full(9, np.nan))).missing_part == 1.0
    zeros = find_patterns(series(np.where(np.arange(400) % 7 == 0, 5.0, 0.0)))
    assert 0.8 < zeros.zero_part < 0.9
