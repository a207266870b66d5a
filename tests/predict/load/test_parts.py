"""A total whose parts behave differently is forecast better from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tests.predict.load.cases import DAY, daily, wander

from flyball.predict.backtest import mae
from flyball.predict.load.parts import MOST_PARTS, Parts
from flyball.predict.load.smoothing import Smoothing
from flyball.predict.select import BOTTOM_UP, new_tracker
from flyball.predict.series import Series


def total() -> Series:
    """A client that follows the clock and one that wanders, and some small ones."""
    clock = daily(30, noise=0.2)
    walk = wander(30).values
    parts = {"clock": clock.values, "walk": walk - walk.min()}
    rng = np.random.default_rng(5)
    parts |= {f"small {index}": rng.random(len(clock)) / 10 for index in range(20)}
    return Series("total", 0.0, 1_800.0, sum(parts.values(), np.zeros(len(clock))), parts=parts)


def test_it_beats_smoothing_of_the_total() -> None:
    series, cut, lead = total(), 20 * DAY, 4
    origins = np.arange(cut, len(series) - lead)
    actual = series.values[origins + lead]
    bottom_up, plain = Parts(), Smoothing()
    for forecaster in (bottom_up, plain):
        forecaster.fit([series.head(cut)], (lead,))
    ours = mae(actual, bottom_up.outlook(series, origins, lead).median)
    assert ours < 0.9 * mae(actual, plain.outlook(series, origins, lead).median)


def test_the_largest_parts_are_taken_and_none_is_lost() -> None:
    series = total()
    bottom_up = Parts()
    bottom_up.fit([series], (1,))
    assert len(bottom_up.members["total"]) == MOST_PARTS
    assert {"clock", "walk"} <= set(bottom_up.members["total"])
    split = bottom_up._split(series)
    np.testing.assert_allclose(sum(part.values for part in split), series.values)


def test_without_its_parts_a_series_gets_the_last_value() -> None:
    series = total()
    bottom_up = Parts()
    bottom_up.fit([series], (1,))
    origins = np.arange(100, 110)
    said = bottom_up.outlook(replace(series, parts={}), origins, 1)
    np.testing.assert_array_equal(said.median, series.values[origins])


def test_it_is_the_default_of_a_series_with_parts() -> None:
    series = total()
    for variant, first in ((series, 1), (replace(series, parts={}), 0)):
        tracker = new_tracker(variant, 500, ("last", BOTTOM_UP), 1, 4)
        assert tracker._used == first
