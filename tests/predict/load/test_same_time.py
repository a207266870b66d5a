"""The same time of other days, plus the drift of the level."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predict.load.cases import DAY

from flyball.predict.load.same_time import SameTime
from flyball.predict.series import Series

SHAPE = 10 + 5 * np.sin(2 * np.pi * np.arange(DAY) / DAY)


def said(values: np.ndarray, lead: int, step_s: float = 86_400.0 / DAY) -> float:
    series = Series("a", 0.0, step_s, values)
    return float(SameTime().outlook(series, np.array([len(values) - 1]), lead).median[0])


@pytest.mark.parametrize("lead", [1, DAY // 2, DAY, DAY + 3])
def test_what_repeats_every_day_is_known(lead: int) -> None:
    values = np.tile(SHAPE, 10)
    around = np.convolve(np.tile(SHAPE, 3), np.ones(2) / 2, mode="valid")
    near = around[DAY + lead % DAY - 2 : DAY + lead % DAY + 1]  # an hour around the time of day
    assert near.min() - 1e-9 <= said(values, lead) <= near.max() + 1e-9


def test_half_of_the_drift_of_the_level_is_carried_on() -> None:
    values = np.concatenate([np.full(9 * DAY, 10.0), np.full(DAY, 16.0)])
    # Half a day ahead the days looked at are the last (16), the one before and one of a week ago
    # (10, 10); the level has risen by 6 since each of the days before those.
    assert said(values, DAY // 2) == pytest.approx(12.0 + 0.5 * 6.0)


def test_days_that_are_not_known_do_not_count() -> None:
    assert said(np.full(DAY + 5, 4.0), 3) == pytest.approx(4.0)
    assert said(np.arange(5.0), 3) == 4.0  # not one day: the last value


def test_without_a_day_it_is_the_last_value_and_counts_stay_above_zero() -> None:
    assert said(np.arange(50.0), 3, step_s=7_000.0) == 49.0
    falling = np.concatenate([np.full(9 * DAY, 10.0), np.zeros(DAY)])
    assert said(falling, DAY // 2) >= 0.0
