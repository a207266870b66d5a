"""The back-test counts only test origins, and the table is resumable."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.predict.load.cases import DAY, counts, daily, wander

from flyball.bench.predict import load
from flyball.core.results import Floats
from flyball.predict.backtest import (
    Slice,
    accuracy,
    backtest,
    best_naive,
    coverage,
    interval,
    least_cover,
    mae,
    pinball,
    ratio,
    rmae,
)
from flyball.predict.series import Series

LIGHT = ("last", "yesterday", "last-week", "smoothing", "linear")
WHERE = Slice(8 * DAY, 14 * DAY, (17 * DAY,))


def test_skill_and_cover_on_a_daily_series() -> None:
    results = backtest([daily()], (1, 6), WHERE, LIGHT)
    for lead, (one,) in results.items():
        assert len(one.actual) == 6 * DAY - lead
        np.testing.assert_array_equal(one.actual, daily().values[14 * DAY + lead :])
        assert rmae([one]) < 0.9
        assert best_naive([one])[0] in ("last", "yesterday", "last-week")
        low, high = one.walk.quantiles[:, 0], one.walk.quantiles[:, -1]
        assert 82 < coverage(one.actual, low, high) < 97
        assert accuracy([one]) > 90


def test_later_values_do_not_change_earlier_forecasts() -> None:
    series = daily()
    first = backtest([series], (4,), WHERE, (*LIGHT, "tree-changes"))[4][0]
    values = series.values.copy()
    values[18 * DAY :] = 1_000.0
    second = backtest([replace(series, values=values)], (4,), WHERE, (*LIGHT, "tree-changes"))[4][0]
    unchanged = 4 * DAY  # test origins before the change
    np.testing.assert_allclose(
        first.walk.quantiles[:unchanged], second.walk.quantiles[:unchanged], rtol=1e-7
    )
    assert not np.allclose(
        first.walk.median[unchanged + DAY :], second.walk.median[unchanged + DAY :]
    )


def test_missing_truth_does_not_count() -> None:
    series = daily()
    values = series.values.copy()
    values[15 * DAY : 16 * DAY] = math.nan
    one = backtest([replace(series, values=values)], (1,), WHERE, LIGHT)[1][0]
    assert len(one.known) == len(one.actual) - DAY
    assert math.isfinite(rmae([one]))


def test_a_panel_of_unlike_series_keeps_its_order() -> None:
    chosen = (*LIGHT, "trees", "tree-changes")
    results = backtest([daily(), counts(), wander()], (2,), WHERE, chosen)[2]
    assert [result.name for result in results] == ["daily", "counts", "wander"]
    for result in results:
        assert rmae([result]) < 1.1


# Measures, by hand -------------------------------------------------------------


def array(*values: float) -> Floats:
    return np.array(values)


def test_measures() -> None:
    assert mae(array(1, 2, math.nan), array(2, 4, 9)) == 1.5
    assert ratio(0.0, 0.0) == 1.0
    assert ratio(1.0, 0.0) == math.inf
    assert coverage(array(1, 2, 3, math.nan), array(0, 0, 0, 0), array(1, 1, 9, 9)) == (
        pytest.approx(200 / 3)
    )
    assert math.isnan(coverage(array(math.nan), array(0), array(1)))
    assert interval(array(5), array(1), array(3)) == 2 + 20 * 2
    assert pinball(array(2.0), np.full((1, 7), 0.0)) == pytest.approx(2 * 0.5)


def test_what_stays_where_it_was_cannot_be_covered_less() -> None:
    still = Series("still", 0.0, 1_800.0, np.full(20 * DAY, 3.0))
    unknown = Series("unknown", 0.0, 1_800.0, np.where(np.arange(20 * DAY) < 9 * DAY, 1.0, np.nan))
    moving, constant, missing = backtest([daily(), still, unknown], (1,), WHERE, LIGHT)[1]
    assert least_cover([moving]) == 90.0
    assert least_cover([constant]) == 100.0
    assert least_cover([moving, constant, missing]) == pytest.approx(95.0)
    assert math.isnan(least_cover([missing]))


# The table ---------------------------------------------------------------------


def small_targets() -> dict[str, load.Target]:
    where = load.parts(0.3)
    bars = {"rMAE": (0.9, math.nan), "accuracy %": (50.0, 50.0), load.PINBALL: (1.0, 1.0)}
    hours = (1_800.0, 7_200.0)
    return {
        "one": load.Target(lambda: [daily(), counts()], hours, where, bars, chosen=LIGHT),
        "two": load.Target(
            lambda: [daily()], hours, where, {"rMAE": (0.1, 0.1)}, True, LIGHT, 0.95
        ),
    }


def test_a_rolling_mean_that_overlaps_flatters() -> None:
    rng = np.random.default_rng(3)
    noise = Series("noise", 0.0, 0.05, 50 + 20 * rng.normal(size=3_000))
    target = load.Target(
        lambda: [noise],
        (0.05,),
        load.parts(0.3),
        {"MAE": (30.0,)},
        chosen=LIGHT,
        overlap=True,
    )
    rows = {row["metric"]: row for row in load.measure("noise", target, lambda _: None)}
    assert rows["MAE"]["holds"] is True
    assert rows["rMAE"]["value"] < 0.8  # the mean beats the last value on noise
    raw = rows["accuracy % of the last value: raw"]["value"]
    rolled = rows["accuracy % of the last value: mean of 20, overlapping"]["value"]
    assert raw < 60 < 95 < rolled
    assert "speaks" in rows["rMAE, linear alone"]["baseline"]
