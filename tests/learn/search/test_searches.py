"""Searches of the unit cube: they find a hollow, keep within bounds and can be repeated."""

import numpy as np
import pytest

from flyball.core.errors import UnknownName
from flyball.core.results import Floats
from flyball.learn.search.searches import SEARCHES, make_search

HOLLOW = np.array([0.2, 0.7, 0.4, 0.9])


def _score(points: Floats) -> Floats:
    return np.asarray(((points - HOLLOW) ** 2).sum(axis=1))


def _run(name: str, generations: int, seed: int) -> tuple[Floats, Floats]:
    search = make_search(name, np.full(4, 0.5), 8, seed)
    every = []
    for _ in range(generations):
        points = search.ask()
        search.tell(points, _score(points))
        every.append(points)
    stacked = np.vstack(every)
    return stacked, _score(stacked)


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_stays_within_bounds_and_repeats_itself(name: str) -> None:
    points, _ = _run(name, 12, seed=1)
    assert points.shape == (96, 4)
    assert points.min() >= 0.0 and points.max() <= 1.0
    assert np.array_equal(points[0], np.full(4, 0.5))  # the start is judged first
    assert np.array_equal(points, _run(name, 12, seed=1)[0])
    assert not np.array_equal(points, _run(name, 12, seed=2)[0])


@pytest.mark.parametrize("name", ["genetic", "swarm"])
def test_scores_lead_a_search_into_the_hollow(name: str) -> None:
    guided = [_run(name, 30, seed)[1].min() for seed in range(6)]
    blind = [_run("random", 30, seed)[1].min() for seed in range(6)]
    assert np.median(guided) < 0.2 * np.median(blind)


def test_an_unknown_search_is_refused() -> None:
    with pytest.raises(UnknownName, match="genetic"):
        make_search("genetical", np.zeros(2), 4, 0)
