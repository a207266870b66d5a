"""Separable CMA-ES: a cloud of points that moves and stretches towards the better ones.

The covariance is diagonal, so a few hundred numbers need few evaluations (Ros and Hansen 2008;
constants as in Hansen's tutorial, 2016). Scores need only be comparable within a generation, so
every generation can be judged on other problems.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyball.core.results import Floats

MOST_STEP, LEAST_STEP = 2.0, 1e-3


class Evolution:
    """Draws generations of points around a mean that follows the better half of each.

    Attributes:
        mean: the present middle: usually better than any single point, as noise cancels out.
        step: the present size of the cloud, as a multiple of the first.
        generation: how many were told.
    """

    def __init__(self, mean: Floats, spread: float, size: int, seed: int) -> None:
        """
        Args:
            mean: the first middle.
            spread: standard deviation of every number at first.
            size: points of a generation.
            seed: of the draws.
        """
        self.mean, self.step, self.size = mean.copy(), 1.0, size
        self.generation = 0
        self._spread, self._rng = spread, np.random.default_rng([seed, 7])
        count = len(mean)
        self._variance, self._path, self._stretch = np.ones(count), np.zeros(count), np.zeros(count)
        ranks = math.log(size / 2 + 0.5) - np.log(np.arange(1, size // 2 + 1))
        self._weights = ranks / ranks.sum()
        mass = 1.0 / float((self._weights**2).sum())
        self._mass = mass
        self._path_rate = (mass + 2) / (count + mass + 5)
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (count + 1)) - 1) + self._path_rate
        self._stretch_rate = (4 + mass / count) / (count + 4 + 2 * mass / count)
        self._rank_one = 2 / ((count + 1.3) ** 2 + mass)
        rank_mu = 2 * (mass - 2 + 1 / mass) / ((count + 2) ** 2 + mass)
        # A diagonal has fewer numbers to learn than a whole matrix, so it may learn faster.
        faster = (count + 2) / 3
        self._rank_one = min(1.0, self._rank_one * faster)
        self._rank_mu = min(1 - self._rank_one, max(0.0, rank_mu * faster))
        self._usual = math.sqrt(count) * (1 - 1 / (4 * count) + 1 / (21 * count**2))

    def ask(self) -> Floats:
        """Draw a generation; of every pair of points the second mirrors the first."""
        half = self._rng.standard_normal((-(-self.size // 2), len(self.mean)))
        draws = np.concatenate([half, -half])[: self.size]
        return np.asarray(self.mean + self._scale * draws)

    @property
    def _scale(self) -> Floats:
        return np.asarray(self._spread * self.step * np.sqrt(self._variance))

    def tell(self, points: Floats, scores: Floats) -> None:
        """Move towards the points with the least scores."""
        best = points[np.argsort(scores, kind="stable")[: len(self._weights)]]
        steps = (best - self.mean) / (self._spread * self.step)
        move = self._weights @ steps
        self.mean = self.mean + self._spread * self.step * move
        keep = 1 - self._path_rate
        gain = math.sqrt(self._path_rate * (2 - self._path_rate) * self._mass)
        self._path = keep * self._path + gain * move / np.sqrt(self._variance)
        length = float(np.linalg.norm(self._path))
        self.generation += 1
        warm = math.sqrt(1 - keep ** (2 * self.generation))
        is_short = length / warm < (1.4 + 2 / (len(self.mean) + 1)) * self._usual
        keep_stretch = 1 - self._stretch_rate
        gain = math.sqrt(self._stretch_rate * (2 - self._stretch_rate) * self._mass)
        self._stretch = keep_stretch * self._stretch + (gain * move if is_short else 0.0)
        self._variance = (
            (1 - self._rank_one - self._rank_mu) * self._variance
            + self._rank_one * self._stretch**2
            + self._rank_mu * (self._weights @ steps**2)
        )
        grow = (self._path_rate / self._damping) * (length / self._usual - 1)
        self.step = min(max(self.step * math.exp(min(1.0, grow)), LEAST_STEP), MOST_STEP)

    # Keeping ------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on exactly here."""
        return {
            "mean": self.mean, "variance": self._variance, "path": self._path,
            "stretch": self._stretch, "step": self.step, "generation": self.generation,
            "rng": self._rng.bit_generator.state,
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken."""
        for name in ("mean", "variance", "path", "stretch"):
            value = np.asarray(state[name], float)
            setattr(self, name if name == "mean" else f"_{name}", value)
        self.step, self.generation = float(state["step"]), int(state["generation"])
        self._rng.bit_generator.state = state["rng"]
