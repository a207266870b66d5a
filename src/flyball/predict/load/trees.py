"""Gradient-boosted trees (LightGBM): a direct model for each lead, for quantiles and the mean.

`Trees` predicts the value itself: right for counts and rates, which jump around a pattern.
`TreeChanges` predicts the change from the last value: right for levels that mostly stay. One set
of trees serves a whole panel of series. The mean of counts with many zeros is fitted with the
Tweedie loss, the quantiles with the pinball loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import lightgbm
import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.contract import (
    FITTED,
    Outlook,
    all_levels,
    certain,
    neighbours,
    never_negative,
)
from flyball.predict.load.features import features
from flyball.predict.series import Series

MEAN = "mean"
ZERO_HEAVY = 0.1


@dataclass(frozen=True)
class BoosterSettings:
    """Holds the settings of the trees.

    Attributes:
        rounds: trees of each model.
        rate: learning rate.
        leaves: leaves of a tree.
        smallest_leaf: least number of rows in a leaf.
        most_rows: maximum number of rows to learn from, evenly picked from the panel.
        threads: threads of the fit.
        seed: seed of the drawn columns and rows.
    """

    rounds: int = 120
    rate: float = 0.05
    leaves: int = 15
    smallest_leaf: int = 60
    most_rows: int = 40_000
    threads: int = 1
    seed: int = 1


class Trees:
    """Forecasts quantiles and mean of the value `lead` steps ahead."""

    of_change = False

    def __init__(self, settings: BoosterSettings | None = None) -> None:
        self.settings = settings or BoosterSettings()
        self.models: dict[int, dict[str, lightgbm.Booster]] = {}
        self.scales: dict[str, float] = {}

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Fit each lead. A lead that no series is long enough for has no model."""
        self.scales = {series.name: scale_of(series.values) for series in panel}
        self.models = {}
        for lead in leads:
            rows, labels = self._rows(panel, lead)
            if len(labels) >= 2 * self.settings.smallest_leaf:
                self.models[lead] = self._boosters(rows, labels)

    def _rows(self, panel: Sequence[Series], lead: int) -> tuple[Floats, Floats]:
        usable = sum(max(0, len(series) - lead) for series in panel)
        stride = max(1, -(-usable // self.settings.most_rows))
        rows, labels = [], []
        for series in panel:
            origins = np.arange(min(series.day, len(series) // 4), len(series) - lead, stride)
            is_known = np.isfinite(series.values[origins + lead]) if len(origins) else origins > 0
            origins = origins[is_known]
            if not len(origins):
                continue
            scale = self.scales[series.name]
            label = series.values[origins + lead] / scale
            if self.of_change:
                label = label - series.filled[origins] / scale
            rows.append(features(series, origins, lead, scale, self.of_change))
            labels.append(label)
        if not rows:
            return np.zeros((0, 1)), np.zeros(0)
        return np.vstack(rows), np.concatenate(labels)

    def _boosters(self, rows: Floats, labels: Floats) -> dict[str, lightgbm.Booster]:
        settings = self.settings
        shared = {
            "learning_rate": settings.rate,
            "num_leaves": settings.leaves,
            "min_data_in_leaf": settings.smallest_leaf,
            "feature_fraction": 0.6,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "lambda_l2": 1.0,
            "max_bin": 63,
            "num_threads": settings.threads,
            "seed": settings.seed,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        counts = not self.of_change and labels.min() >= 0 < labels.max()
        counts = counts and np.mean(labels == 0) >= ZERO_HEAVY
        mean = {"objective": "tweedie", "tweedie_variance_power": 1.3} if counts else {}
        goals: dict[str, dict[str, Any]] = {MEAN: mean or {"objective": "regression"}}
        goals |= {str(level): {"objective": "quantile", "alpha": level} for level in FITTED}
        data = lightgbm.Dataset(rows, labels, params=shared, free_raw_data=False)
        return {
            name: lightgbm.train({**shared, **goal}, data, settings.rounds)
            for name, goal in goals.items()
        }

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        """Return forecasts; other leads than the fitted ones are interpolated between models."""
        if not self.models or not len(origins):
            return certain(series.filled[origins])
        scale = self.scales.get(series.name) or scale_of(series.values[: origins.min() + 1])
        rows = features(series, origins, lead, scale, self.of_change)
        sums = dict.fromkeys((MEAN, *map(str, FITTED)), np.zeros(len(origins)))
        for near, weight in neighbours(self.models, lead):
            for name, model in self.models[near].items():
                output = np.asarray(model.predict(rows, num_threads=self.settings.threads), float)
                sums[name] = sums[name] + weight * scale * output
        base = series.filled[origins] if self.of_change else np.zeros(len(origins))
        mean = sums[MEAN] + base
        fitted = np.sort(np.column_stack([sums[str(level)] for level in FITTED]), axis=1)
        quantiles = all_levels(fitted) + base[:, None]
        if never_negative(series, origins):
            mean, quantiles = np.maximum(mean, 0.0), np.maximum(quantiles, 0.0)
        return Outlook(mean, quantiles)

    def save(self) -> Mapping[str, Any]:
        return {
            "settings": asdict(self.settings),
            "scales": self.scales,
            "models": {
                str(lead): {name: model.model_to_string() for name, model in models.items()}
                for lead, models in self.models.items()
            },
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        forecaster = cls(BoosterSettings(**saved["settings"]))
        forecaster.scales = dict(saved["scales"])
        forecaster.models = {
            int(lead): {name: lightgbm.Booster(model_str=text) for name, text in models.items()}
            for lead, models in saved["models"].items()
        }
        return forecaster


class TreeChanges(Trees):
    """Forecasts the change from the last value."""

    of_change = True


def scale_of(values: Floats) -> float:
    """Return the mean absolute value of a series, 1 if there is none."""
    sizes = np.abs(values[np.isfinite(values)])
    return float(sizes.mean()) or 1.0 if len(sizes) else 1.0
