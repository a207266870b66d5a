"""Confidence intervals against numbers worked by hand, printed tables and scipy."""

from __future__ import annotations

import math

import pytest

from flyball.core.intervals import paired, student_95


def test_paired_difference() -> None:
    # Gaps 1, 2, 3: mean 2, deviation 1, t(2) = 4.302653.
    mean, low, high = paired([2, 4, 6], [1, 2, 3])
    half = 4.302653 / math.sqrt(3)
    assert (mean, low, high) == pytest.approx((2, 2 - half, 2 + half))
    assert paired([5, 5], [3, 3]) == (2, 2, 2)


def test_paired_difference_of_one_or_none() -> None:
    mean, low, high = paired([3], [1])
    assert mean == 2
    assert math.isnan(low)
    assert math.isnan(high)
    assert math.isnan(paired([], [])[0])


@pytest.mark.parametrize(
    ("freedom", "point"),
    [(1, 12.7062), (2, 4.3027), (9, 2.2622), (30, 2.0423), (60, 2.0003), (10**6, 1.95997)],
)
def test_student_points_are_those_of_the_printed_tables(freedom: int, point: float) -> None:
    assert student_95(freedom) == pytest.approx(point, abs=5e-5)


@pytest.mark.parametrize("freedom", [*range(1, 20), 299, 300, 301, 302, 1000, 10**6])
def test_student_points_are_exact(freedom: int) -> None:
    from scipy import stats

    point = stats.t.ppf(0.975, freedom)
    assert student_95(freedom) == pytest.approx(point, rel=1e-11)


def test_no_student_point_without_a_degree_of_freedom() -> None:
    assert math.isnan(student_95(0))
