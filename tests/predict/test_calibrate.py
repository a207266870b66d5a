"""Bands reach their nominal coverage, also after a change and on series that sit on a bound."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.results import Floats
from flyball.predict.calibrate import Band, OutcomeWindow


def covered(values: Floats, cover: float = 0.9, floor: float = -np.inf) -> Floats:
    """Whether each value was within the band around the middle 0 that was given before it."""
    band, inside = Band(cover), []
    for value in values.tolist():
        low, high = band.bounds(0.0, 0.0)
        given = max(low, floor), max(high, floor)
        inside.append(given[0] <= value <= given[1])
        band.learn(0.0, 0.0, given, value)
    return np.array(inside, float)


def test_rolling_quantiles_are_those_of_the_window() -> None:
    rolling, rng = OutcomeWindow(50), np.random.default_rng(1)
    values = rng.normal(size=120).round(1)  # with ties
    for value in values:
        rolling.add(float(value))
    assert len(rolling) == 50
    window = np.sort(values[-50:])
    assert rolling.quantile(1.0) == window[-1]
    assert rolling.quantile(0.0) == window[0]
    assert rolling.quantile(0.5) == window[25]


@pytest.mark.parametrize("cover", [0.5, 0.8, 0.9])
def test_noise_is_covered_as_promised(cover: float) -> None:
    values = np.random.default_rng(2).normal(size=4_000)
    assert covered(values, cover)[200:].mean() == pytest.approx(cover, abs=0.015)


def test_skewed_noise_is_covered_on_both_sides() -> None:
    values = np.random.default_rng(3).exponential(size=4_000)
    assert covered(values)[200:].mean() == pytest.approx(0.9, abs=0.015)


def test_cover_comes_back_after_the_spread_trebled() -> None:
    rng = np.random.default_rng(4)
    values = np.concatenate([rng.normal(size=2_000), 3 * rng.normal(size=2_000)])
    assert covered(values)[2_300:].mean() == pytest.approx(0.9, abs=0.02)


def test_counts_that_sit_on_zero_still_have_the_promised_cover() -> None:
    # A lower bound of zero misses nothing, so all of the misses must be above.
    values = np.random.default_rng(5).poisson(2.0, 6_000).astype(float)
    noise = np.random.default_rng(6).uniform(0, 1e-3, 6_000)  # no ties but at zero
    values = np.where(values > 0, values + noise, 0.0)
    assert covered(values, floor=0.0)[500:].mean() == pytest.approx(0.9, abs=0.02)


def test_with_few_outcomes_the_band_is_wide() -> None:
    band = Band(0.9)
    for value in (1.0, -2.0, 1.5):
        band.learn(0.0, 0.0, (0.0, 0.0), value)
    assert band.bounds(0.0, 0.0) == (-3.0, 3.0)


def test_bounds_never_cross() -> None:
    band = Band(0.5)
    for _ in range(100):  # what is offered is far too wide
        band.learn(-100.0, 100.0, (-100.0, 100.0), 0.0)
    low, high = band.bounds(-100.0, 100.0)
    assert low <= high
    assert abs(low) < 1e-9
