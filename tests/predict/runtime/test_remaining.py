"""Remaining time of running jobs."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.errors import BadInput
from flyball.predict.runtime.remaining import SCORES, Report, remaining

RUN_S = np.exp(7.0 + np.array(SCORES))


def test_at_the_start_it_is_the_run_time() -> None:
    np.testing.assert_allclose(remaining(RUN_S, 0.0).seconds, RUN_S)


def test_the_longer_it_has_run_the_longer_it_will() -> None:
    """Log-normal run times: the median that is left grows with the time gone by."""
    ages_s = (2_000.0, 10_000.0, 100_000.0, 1e9)
    left = [remaining(RUN_S, age_s).seconds for age_s in ages_s]
    assert left[0][2] < left[1][2] < left[2][2] < left[3][2]
    for quantiles in left:
        assert np.all(quantiles >= 0.0)
        assert np.all(np.diff(quantiles) >= 0.0)


def test_conditional_quantiles_match_a_sample() -> None:
    sample = np.exp(7.0 + np.random.default_rng(0).standard_normal(400_000))
    above = sample[sample > 1_500.0] - 1_500.0
    left = remaining(RUN_S, 1_500.0).seconds
    assert left[2] == pytest.approx(np.median(above), rel=0.15)
    assert left[3] == pytest.approx(np.quantile(above, 0.75), rel=0.15)


def test_steps_win() -> None:
    reports = [Report(10.0 * index, 5.0 * index) for index in range(11)]
    left = remaining(RUN_S, 100.0, reports, 500.0)
    assert left.seconds[2] == pytest.approx(900.0)
    assert left.seconds[4] == pytest.approx(900.0 * np.exp(0.1645), rel=1e-3)
    assert "50 of 500 steps" in left.basis


def test_steps_that_say_too_little() -> None:
    stuck = [Report(float(index), 7.0) for index in range(5)]
    for reports, total in ((stuck, 100.0), ([Report(0, 0), Report(1, 1)], 9.0), (stuck, 0.0)):
        assert "run times above" in remaining(RUN_S, 50.0, reports, total).basis


def test_more_steps_than_there_are() -> None:
    reports = [Report(float(index), 10.0 * index) for index in range(5)]
    np.testing.assert_array_equal(remaining(RUN_S, 4.0, reports, 30.0).seconds, 0.0)


@pytest.mark.parametrize("elapsed_s", [-1.0, float("nan")])
def test_impossible(elapsed_s: float) -> None:
    with pytest.raises(BadInput):
        remaining(RUN_S, elapsed_s)
