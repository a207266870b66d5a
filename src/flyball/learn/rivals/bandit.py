"""A contextual bandit: LinUCB over a few settings, with the features of `affine` as context.

Each setting has a linear estimate of its reward, and is tried while that is uncertain (Li et al.
2010). It knows nothing of what a choice costs later: its reward is that of one epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.learn.env.spaces import Vector, strategy_mask
from flyball.learn.rivals.affine import FEATURES, feature_matrix
from flyball.learn.rivals.look_ahead import candidates

RIDGE = 10.0
MOST_POOLS = 9


def contexts(seen: Vector) -> Floats:
    """Return features of observations and a 1."""
    matrix, offset = feature_matrix()
    values = np.asarray(seen, float) @ matrix.T + offset
    return np.concatenate([np.clip(values, -5.0, 5.0), np.ones((len(seen), 1))], axis=1)


@dataclass
class LinUcb:
    """Chooses among the settings that look-ahead tries.

    Attributes:
        precision: of each setting's weights: the identity, and the contexts it was tried in.
        rewarded: contexts times rewards, by setting.
        width: how many standard deviations a setting is given credit for.
    """

    precision: Floats
    rewarded: Floats
    width: float

    @classmethod
    def new(cls, width: float) -> LinUcb:
        """Return one that has tried nothing."""
        arms, size = len(candidates(MOST_POOLS)[0]), len(FEATURES) + 1
        return cls(np.tile(RIDGE * np.eye(size), (arms, 1, 1)), np.zeros((arms, size)), width)

    def arms(self, seen: Vector, pools: Ints, width: float) -> Ints:
        """Return the best setting of each row, uncertainty counted in its favour."""
        x = contexts(seen)
        inverse = np.linalg.inv(self.precision)
        weights = np.einsum("aij,aj->ai", inverse, self.rewarded)
        spread = np.sqrt(np.einsum("ni,aij,nj->na", x, inverse, x))
        values = x @ weights.T + width * spread
        strategies = candidates(MOST_POOLS)[0]
        for row, count in enumerate(pools.tolist()):
            values[row, ~strategy_mask(count)[strategies]] = -np.inf
        return np.asarray(values.argmax(axis=1))

    def learn(self, seen: Vector, arms: Ints, rewards: Floats) -> None:
        """Take note of what the settings that were tried brought."""
        for x, arm, reward in zip(contexts(seen), arms.tolist(), rewards.tolist(), strict=True):
            self.precision[arm] += np.outer(x, x)
            self.rewarded[arm] += reward * x

    def begin(self, runs: int) -> LinUcb:
        """Return itself: what it remembers is not of single runs."""
        return self

    def choose(self, rows: Ints, seen: Vector, pools: Ints) -> tuple[Ints, Floats]:
        """Return the setting with the best estimate."""
        strategies, residuals = candidates(MOST_POOLS)
        arms = self.arms(seen, pools, 0.0)
        return strategies[arms], residuals[arms]
