"""Live forecasts of one series: accurate, wide when little is known, and learning."""

from __future__ import annotations

import numpy as np
import pytest
from tests.predict.load.cases import DAY, counts, daily

from flyball.core.errors import BadInput
from flyball.core.protocols import Forecaster
from flyball.predict.load.ahead import LiveForecast, ladder
from flyball.predict.load.contract import LEVELS, neighbours
from flyball.predict.load.figure import forecast_figure
from flyball.predict.series import Series

LIGHT = ("last", "yesterday", "last-week", "smoothing", "linear")


def test_a_daily_pattern_is_carried_on() -> None:
    series = daily(22)
    past = series.head(21 * DAY)
    ahead = LiveForecast(past, DAY * 1_800.0, LIGHT)
    ahead.fit(past.values)
    forecast = ahead.predict(DAY * 1_800.0)
    assert forecast.levels == LEVELS
    assert forecast.quantiles.shape == (len(LEVELS), DAY)
    truth = series.values[21 * DAY :]
    assert np.abs(truth - forecast.quantiles[3]).mean() < 1.5
    inside = (truth >= forecast.quantiles[0]) & (truth <= forecast.quantiles[-1])
    assert inside.mean() > 0.75
    assert (np.diff(forecast.quantiles, axis=0) >= -1e-9).all()
    for skill in ahead.skill():
        assert skill.rmae < 0.95
        assert 80 < skill.coverage < 99
    assert forecast_figure(ahead, forecast)[:4] == b"\x89PNG"


def test_trees_take_part_and_the_mean_of_counts_is_above_their_median() -> None:
    series = counts(24)
    ahead = LiveForecast(series, 4 * 1_800.0)
    ahead.fit(series.values)
    forecast = ahead.predict(4 * 1_800.0)
    assert forecast.quantiles.min() >= 0
    assert np.isfinite(forecast.mean).all()
    assert {skill.lead_s for skill in ahead.skill()} == {1_800.0, 3_600.0, 5_400.0, 7_200.0}


def test_observing_is_the_same_as_having_known() -> None:
    series = daily(21)
    live: Forecaster = LiveForecast(series.head(20 * DAY), 4 * 1_800.0, LIGHT)
    live.fit(series.values[: 20 * DAY])
    before = live.predict(7_200.0)
    for index in range(20 * DAY, 20 * DAY + 10):
        live.observe(index * 1_800.0, float(series.values[index]))
    after = live.predict(7_200.0)
    assert before.quantiles.shape == after.quantiles.shape
    assert not np.allclose(before.quantiles, after.quantiles)
    assert abs(after.quantiles[3, 0] - series.values[20 * DAY + 10]) < 4.0


def test_missed_steps_are_missing_and_old_values_are_refused() -> None:
    series = daily(10)
    ahead = LiveForecast(series, 1_800.0, ("last", "smoothing"))
    ahead.fit(series.values)
    ahead.observe((len(series) + 3) * 1_800.0, 12.0)
    assert np.isnan(ahead.series.values[-4:-1]).all()
    assert ahead.series.values[-1] == 12.0
    assert np.isfinite(ahead.predict(1_800.0).quantiles).all()
    ahead.observe((len(series) + 4) * 1_800.0, float("inf"))
    assert np.isnan(ahead.series.values[-1])
    with pytest.raises(BadInput, match="give it in order"):
        ahead.observe(0.0, 1.0)
    with pytest.raises(BadInput, match="start again"):
        ahead.observe(1e12, 1.0)


@pytest.mark.parametrize("values", [[5.0], [1.0, 2.0], [0.0, 0.0, 0.0], [3.0] * 20])
def test_of_a_few_values_the_last_one_with_a_wide_band(values: list[float]) -> None:
    ahead = LiveForecast(Series("few", 0.0, 60.0, np.array(values)), 600.0)
    ahead.fit(np.array(values))
    forecast = ahead.predict(600.0)
    assert "with a wide band" in ahead.notes[0]
    assert (forecast.quantiles[3] == values[-1]).all()
    widths = forecast.quantiles[-1] - forecast.quantiles[0]
    assert (widths > 0).all()
    assert (np.diff(widths) > 0).all()
    assert not ahead.skill()
    assert len(ahead.past()[0]) == 0
    assert forecast_figure(ahead, forecast, "svg")


def test_a_horizon_beyond_what_the_history_supports_is_noted() -> None:
    series = daily(4)
    ahead = LiveForecast(series, 10 * DAY * 1_800.0, ("last", "smoothing"))
    ahead.fit(series.values)
    assert "beyond it the band is widened" in ahead.notes[0]
    forecast = ahead.predict(10 * DAY * 1_800.0)
    assert forecast.mean.shape == (10 * DAY,)
    widths = forecast.quantiles[-1] - forecast.quantiles[0]
    assert widths[-1] > widths[0]


def test_a_series_without_values_is_refused() -> None:
    series = Series("none", 0.0, 60.0, np.full(5, np.nan))
    with pytest.raises(BadInput, match="no numbers"):
        LiveForecast(series, 600.0).fit(series.values)
    with pytest.raises(BadInput, match="observe one first"):
        LiveForecast(series, 600.0).predict(600.0)
    with pytest.raises(BadInput, match="a horizon of"):
        LiveForecast(series, 0.0)


def test_a_constant_series_stays_what_it_is() -> None:
    series = Series("flat", 0.0, 60.0, np.full(400, 3.0))
    ahead = LiveForecast(series, 600.0)
    ahead.fit(series.values)
    np.testing.assert_allclose(ahead.predict(600.0).quantiles, 3.0, rtol=0.02)


def test_the_ladder_has_both_ends() -> None:
    assert ladder(1) == [1]
    assert ladder(144)[0] == 1
    assert ladder(144)[-1] == 144
    assert len(ladder(10_000)) <= 6


def test_between_two_rungs_both_count() -> None:
    assert neighbours([1, 4, 16], 4) == [(4, 1.0)]
    assert neighbours([1, 4, 16], 100) == [(16, 1.0)]
    assert neighbours([4, 16], 2) == [(4, 1.0)]
    assert neighbours([4, 16], 8) == [(4, 0.5), (16, 0.5)]
    assert neighbours([], 8) == []
