"""Gradient-boosted trees over the features: a point and quantiles of the log run time.

The trees predict how far a job lies from `base`, a mean of like jobs: trees are step functions
and cannot copy a number, but can predict a correction of 0. The point is the mean of two models:
one of the distance from `base` with Huber's loss (a mean where jobs are alike, a median where they
are not), one of the distance from `recent`, the median of like jobs, with the absolute loss. The
other quantiles have the pinball loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.core.results import Floats
from flyball.core.units import S_PER_DAY
from flyball.predict.runtime.features import BASE, NAMES, RECENT

if TYPE_CHECKING:
    import lightgbm

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Levels of the predicted quantiles; the middle one is the point."""
MIDDLE = LEVELS.index(0.5)
LEAST_ROWS = 300
"""Least number of ended jobs; below it trees would only learn noise."""


@dataclass(frozen=True)
class TreeSettings:
    """Holds the settings of the trees; chosen on jobs before the test slice of the back-test.

    Attributes:
        rounds: number of trees for the point.
        band_rounds: number of trees for each quantile.
        leaves: leaves of a tree.
        least_rows: least number of rows in a leaf.
        rate: learning rate.
        features: part of the features that a tree uses.
        delta: where Huber's loss turns from squared to linear, in log seconds.
        memory_s: age at which a job weighs a third.
        seed: seed of all random draws.
    """

    rounds: int = 200
    band_rounds: int = 120
    leaves: int = 63
    least_rows: int = 50
    rate: float = 0.04
    features: float = 0.6
    delta: float = 0.5
    memory_s: float = 14 * S_PER_DAY
    seed: int = 1


@dataclass
class Trees:
    """Holds one model per quantile, in the order of `LEVELS`, then the point from `recent`.

    No models = not fitted.
    """

    settings: TreeSettings = field(default_factory=TreeSettings)
    models: list[lightgbm.Booster] = field(default_factory=list)

    def fit(self, rows: Floats, logs: Floats, age_s: Floats) -> None:
        """Learn from jobs: features, logarithms of run times, and ages since submission."""
        has_base = np.isfinite(rows[:, BASE])
        if np.count_nonzero(has_base) < LEAST_ROWS:
            self.models = []
            return
        import lightgbm

        rows, logs = rows[has_base], logs[has_base]
        weight = np.exp(-age_s[has_base] / self.settings.memory_s)
        features = rows.astype(np.float32)
        table, from_recent = (
            lightgbm.Dataset(features, logs - start, weight=weight, feature_name=list(NAMES))
            for start in (rows[:, BASE], _recent(rows))
        )
        self.models = [
            lightgbm.train(self._options(level), table, self._rounds(level)) for level in LEVELS
        ]
        options = {**self._options(0.5), "objective": "regression_l1"}
        self.models.append(lightgbm.train(options, from_recent, self.settings.rounds))

    def predict(self, rows: Floats) -> Floats:
        """Return log run times, one column per level, unsorted; NaN where there is no base."""
        table = rows.astype(np.float32)
        base = rows[:, BASE]
        *by_level, from_recent = (_predicted(model, table) for model in self.models)
        logs = np.column_stack([base + above for above in by_level])
        logs[:, MIDDLE] = (logs[:, MIDDLE] + _recent(rows) + from_recent) / 2.0
        return logs

    def _rounds(self, level: float) -> int:
        return self.settings.rounds if level == 0.5 else self.settings.band_rounds

    def _options(self, level: float) -> dict[str, Any]:
        settings = self.settings
        loss = (
            {"objective": "huber", "alpha": settings.delta}
            if level == 0.5
            else {"objective": "quantile", "alpha": level}
        )
        return {
            **loss,
            "num_leaves": settings.leaves,
            "learning_rate": settings.rate,
            "min_data_in_leaf": settings.least_rows,
            "feature_fraction": settings.features,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "seed": settings.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }


def _recent(rows: Floats) -> Floats:
    """Return the median of like jobs, or `base` where none has ended."""
    return np.where(np.isnan(rows[:, RECENT]), rows[:, BASE], rows[:, RECENT])


def _predicted(model: lightgbm.Booster, table: Any) -> Floats:
    return np.asarray(model.predict(table, num_threads=1), np.float64)
