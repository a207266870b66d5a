"""Gradient-boosted trees over the features: a point and quantiles of the log run time.

The trees predict how far a job lies from `base`, a mean of like jobs: trees are steps and cannot
copy a number, but they can say when to leave it alone. The point has Huber's loss (a mean where
jobs are alike, a median where they are wild), the others the pinball loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.core.results import Floats
from flyball.predict.runtime.features import BASE, NAMES

if TYPE_CHECKING:
    import lightgbm

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles that are predicted; the middle one is the point."""
MIDDLE = LEVELS.index(0.5)
LEAST_ROWS = 300
"""Ended jobs below which trees would only learn noise."""


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown; chosen on jobs before the test slice of the back-test.

    Attributes:
        rounds: trees of the point.
        band_rounds: trees of each quantile.
        leaves: of a tree.
        least_rows: in a leaf.
        rate: of learning.
        features: part of them that a tree sees.
        delta: where Huber's loss turns from square to straight, in log seconds.
        memory_s: age at which a job weighs a third.
        seed: of whatever is drawn.
    """

    rounds: int = 200
    band_rounds: int = 120
    leaves: int = 63
    least_rows: int = 50
    rate: float = 0.04
    features: float = 0.6
    delta: float = 0.5
    memory_s: float = 14 * 86_400.0
    seed: int = 1


@dataclass
class Trees:
    """One model a quantile, in the order of `LEVELS`; none = not fitted."""

    settings: TreeSettings = field(default_factory=TreeSettings)
    models: list[lightgbm.Booster] = field(default_factory=list)

    def fit(self, rows: Floats, logs: Floats, age_s: Floats) -> None:
        """Learn from ended jobs: features, logarithms of run times, and how long ago they came."""
        known = np.isfinite(rows[:, BASE])
        if np.count_nonzero(known) < LEAST_ROWS:
            self.models = []
            return
        import lightgbm

        rows, target = rows[known], logs[known] - rows[known, BASE]
        weight = np.exp(-age_s[known] / self.settings.memory_s)
        table = lightgbm.Dataset(
            rows.astype(np.float32), target, weight=weight, feature_name=list(NAMES)
        )
        self.models = [
            lightgbm.train(self._options(level), table, self._rounds(level)) for level in LEVELS
        ]

    def predict(self, rows: Floats) -> Floats:
        """Log run times, one column a level, not yet in order; NaN where there is no base."""
        table = rows.astype(np.float32)
        base = rows[:, BASE]
        return np.column_stack([base + _predicted(model, table) for model in self.models])

    def _rounds(self, level: float) -> int:
        return self.settings.rounds if level == 0.5 else self.settings.band_rounds

    def _options(self, level: float) -> dict[str, Any]:
        own = self.settings
        loss = (
            {"objective": "huber", "alpha": own.delta}
            if level == 0.5
            else {"objective": "quantile", "alpha": level}
        )
        return {
            **loss,
            "num_leaves": own.leaves,
            "learning_rate": own.rate,
            "min_data_in_leaf": own.least_rows,
            "feature_fraction": own.features,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": own.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }


def _predicted(model: lightgbm.Booster, table: Any) -> Floats:
    return np.asarray(model.predict(table, num_threads=1), np.float64)
