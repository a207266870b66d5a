"""The centre of the best divisions: as good as the corner, and in the middle."""

from __future__ import annotations

import numpy as np
import pytest

from flyball.core.knobs import Optimum
from flyball.core.results import Floats
from flyball.schedule.shares.centre import Programme
from flyball.schedule.shares.groups import JobGroups, group
from flyball.schedule.shares.programmes import max_min, max_sum

CENTRE = Optimum.CENTRE


def case(seed: int, jobs: int = 9) -> tuple[JobGroups, Floats]:
    rng = np.random.default_rng(seed)
    speeds = rng.choice((0.0, 0.25, 0.5, 1.0, 2.0), (jobs, 3))
    speeds[~speeds.any(axis=1), 0] = 1.0
    groups = group(rng.choice((1.0, 2.0, 4.0), jobs), speeds, rng.choice((0.2, 1.0), jobs))
    return groups, rng.choice((2.0, 4.0, 9.0), 3)


def assert_valid(groups: JobGroups, capacity: Floats, shares: Floats) -> None:
    assert (shares >= 0).all()
    assert (shares.sum(axis=1) <= 1 + 1e-5).all()
    used = ((groups.jobs * groups.asks)[:, None] * shares).sum(axis=0)
    assert (used <= capacity * (1 + 1e-5)).all()
    assert (shares[groups.speeds == 0] == 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_centre_is_as_good_as_the_corner(seed: int) -> None:
    groups, capacity = case(seed)
    least, shares = max_min(groups, capacity, CENTRE)
    assert_valid(groups, capacity, shares)
    best = max_min(groups, capacity)[0]
    assert least == pytest.approx(best, rel=1e-4)
    reached = ((groups.speeds * shares).sum(axis=1) / groups.needs).min()
    assert reached == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize("seed", range(20))
def test_the_centre_has_the_corners_sum(seed: int) -> None:
    groups, capacity = case(seed)
    gains = groups.speeds * groups.needs[:, None]
    weighed = gains * groups.jobs[:, None]
    shares = max_sum(groups, capacity, gains, CENTRE)
    assert_valid(groups, capacity, shares)
    assert (weighed * shares).sum() == pytest.approx(
        (weighed * max_sum(groups, capacity, gains)).sum(), rel=1e-4
    )


def test_two_equal_ways_are_taken_evenly() -> None:
    # One job, two pools alike, half its time asked for by nobody: the middle is a half on each.
    groups = group(np.array([1.0]), np.array([[1.0, 1.0]]))
    assert max_min(groups, np.array([1.0, 1.0]), CENTRE)[1] == pytest.approx(0.5, abs=1e-3)


def test_what_the_aim_does_not_need_is_spread_over_the_jobs() -> None:
    # Job 0 can only use pool 0 and needs so much that it has to run all the time; a corner gives
    # job 1 no more than its need, the centre far more of the second pool.
    groups = group(np.ones(2), np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, 0.1]))
    row = int(np.flatnonzero(groups.needs == 0.1)[0])
    shares = max_min(groups, np.array([1.0, 1.0]), CENTRE)[1]
    # Slack and share have equal weight: x maximises log(x - 0.1) + log(x) + 2 log(1 - x).
    grid = np.linspace(0.11, 0.99, 8801)
    middle = grid[np.argmax(np.log(grid - 0.1) + np.log(grid) + 2 * np.log(1 - grid))]
    assert shares[row, 1] == pytest.approx(middle, abs=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_a_group_counts_as_often_as_it_has_jobs(seed: int) -> None:
    groups, capacity = case(seed, jobs=4)
    many = JobGroups(
        groups.jobs * 3, groups.asks, groups.speeds, groups.needs, np.repeat(groups.of_job, 3)
    )
    rows = np.repeat(np.arange(len(groups.jobs)), (3 * groups.jobs).astype(int))
    one_by_one = JobGroups(
        np.ones(len(rows)), groups.asks[rows], groups.speeds[rows], groups.needs[rows], rows
    )
    together = Programme(many, capacity, needs=many.needs).solve()[1]
    apart = Programme(one_by_one, capacity, needs=one_by_one.needs).solve()[1]
    assert apart == pytest.approx(together[rows], abs=1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_fixed_needs_are_met(seed: int) -> None:
    groups, capacity = case(seed)
    needs = groups.needs * max_min(groups, capacity)[0] * 0.97
    shares = Programme(groups, capacity, needs=needs, fixed=True).solve()[1]
    assert_valid(groups, capacity, shares)
    assert ((groups.speeds * shares).sum(axis=1) >= needs * (1 - 1e-5)).all()
