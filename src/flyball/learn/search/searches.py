"""Three searches of the unit cube for the least score: genetic, random, particle swarm.

Each is asked for a generation of points and then told their scores. What it asks for depends on
its seed and on what it was told only, so an interrupted search is repeated up to where it stopped
by telling it the scores that were kept.

The genetic search is the real-coded one of NSGA-II with a single objective: tournaments of two,
simulated binary crossover, polynomial mutation, and parents compete with their children for the
places of the next generation (Deb et al. 2002; Deb and Agrawal 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from flyball.core.errors import UnknownName
from flyball.core.results import Floats

CROSSED = 0.9
"""Probability that two parents are crossed; else the child is a copy of one, then mutated."""
CROSSOVER_INDEX = 15.0
MUTATION_INDEX = 20.0
"""The larger the index, the nearer children stay to their parents."""
INERTIA, TO_OWN_BEST, TO_BEST = 0.73, 1.5, 1.5
"""Constriction coefficients of particle swarms (Clerc and Kennedy 2002)."""
FIRST_SPEED = 0.2


class Search(Protocol):
    """Proposes points and learns from their scores, generation by generation."""

    def ask(self) -> Floats:
        """Return the next generation: points by rows."""
        ...

    def tell(self, points: Floats, scores: Floats) -> None:
        """Take note of the scores of the generation that was asked for; less is better."""
        ...


class RandomSearch:
    """Draws every point evenly, whatever the scores; the first is the start."""

    def __init__(self, start: Floats, size: int, seed: int) -> None:
        self._start: Floats | None = start
        self._shape, self._rng = (size, len(start)), np.random.default_rng(seed)

    def ask(self) -> Floats:
        """Return points that do not depend on scores."""
        points = self._rng.random(self._shape)
        if self._start is not None:
            points[0], self._start = self._start, None
        return points

    def tell(self, points: Floats, scores: Floats) -> None:
        """Ignore the scores."""


class Genetic:
    """Crosses and mutates the best points so far."""

    def __init__(self, start: Floats, size: int, seed: int) -> None:
        self._size, self._rng = size, np.random.default_rng(seed)
        self._first = np.vstack([start, self._rng.random((size - 1, len(start)))])
        self._points, self._scores = np.empty((0, len(start))), np.empty(0)

    def ask(self) -> Floats:
        """Return children of the present generation; at first, random points."""
        if not len(self._points):
            return self._first
        children = [self._mutated(self._crossed(self._parent(), self._parent()))
                    for _ in range(self._size)]  # fmt: skip
        return np.array(children)

    def tell(self, points: Floats, scores: Floats) -> None:
        """Keep the best of parents and children."""
        every = np.vstack([self._points, points])
        all_scores = np.concatenate([self._scores, scores])
        best = np.argsort(all_scores, kind="stable")[: self._size]
        self._points, self._scores = every[best], all_scores[best]

    def _parent(self) -> Floats:
        """Return the better of two points drawn."""
        one, other = self._rng.integers(len(self._points), size=2)
        return np.asarray(self._points[min(one, other)])  # they are sorted by score

    def _crossed(self, one: Floats, other: Floats) -> Floats:
        """Return a child near one of the parents, as far off as they are from each other."""
        if self._rng.random() > CROSSED:
            return one.copy()
        draw = self._rng.random(len(one))
        power = 1.0 / (CROSSOVER_INDEX + 1.0)
        far = np.maximum(2.0 * (1.0 - draw), 1e-12) ** -power
        spread = np.where(draw <= 0.5, (2.0 * draw) ** power, far)
        sign = self._rng.choice([-1.0, 1.0], size=len(one))
        return np.clip(0.5 * ((one + other) + sign * spread * (one - other)), 0.0, 1.0)

    def _mutated(self, point: Floats) -> Floats:
        """Return the point with about one coordinate moved."""
        draw = self._rng.random(len(point))
        power = 1.0 / (MUTATION_INDEX + 1.0)
        step = np.where(
            draw < 0.5, (2.0 * draw) ** power - 1.0, 1.0 - (2.0 * (1.0 - draw)) ** power
        )
        moved = self._rng.random(len(point)) < 1.0 / len(point)
        return np.clip(point + moved * step, 0.0, 1.0)


class Swarm:
    """Particles that fly on, drawn to their own best point and to the best of all."""

    def __init__(self, start: Floats, size: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._at: Floats = np.vstack([start, self._rng.random((size - 1, len(start)))])
        speed = self._rng.uniform(-FIRST_SPEED, FIRST_SPEED, self._at.shape)
        self._speed: Floats = np.asarray(speed)
        self._best, self._scores = self._at.copy(), np.full(size, np.inf)

    def ask(self) -> Floats:
        """Return where the particles are."""
        return self._at.copy()

    def tell(self, points: Floats, scores: Floats) -> None:
        """Let the particles fly on."""
        better = scores < self._scores
        self._best[better], self._scores[better] = points[better], scores[better]
        best = self._best[int(np.argmin(self._scores))]
        own, common = self._rng.random((2, *self._at.shape))
        pull = TO_OWN_BEST * own * (self._best - self._at) + TO_BEST * common * (best - self._at)
        self._speed = np.asarray(INERTIA * self._speed + pull)
        beyond = (self._at + self._speed < 0) | (self._at + self._speed > 1)
        self._at = np.clip(self._at + self._speed, 0.0, 1.0)
        self._speed[beyond] *= -0.5  # it bounces off the edge


SEARCHES: dict[str, Callable[[Floats, int, int], Search]] = {
    "genetic": Genetic,
    "random": RandomSearch,
    "swarm": Swarm,
}


def make_search(name: str, start: Floats, size: int, seed: int) -> Search:
    """Return a search.

    Args:
        start: the first point judged.
        size: points of a generation.

    Raises:
        UnknownName: there is none of that name.
    """
    if name not in SEARCHES:
        raise UnknownName("search", name, SEARCHES)
    return SEARCHES[name](start, size, seed)
