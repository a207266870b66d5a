"""Residuals of a formula, learnt from measurements: ridge regression or boosted trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flyball.core.results import Floats

if TYPE_CHECKING:
    import lightgbm


@dataclass(frozen=True)
class ResidualTreeSettings:
    """Holds the settings of the trees.

    Attributes:
        rounds: number of trees.
        leaves: leaves of a tree.
        least_rows: least number of rows in a leaf.
        rate: learning rate.
        seed: seed of all random draws.
    """

    rounds: int = 400
    leaves: int = 63
    least_rows: int = 5
    rate: float = 0.05
    seed: int = 1


SMOOTH = ResidualTreeSettings(rounds=200, leaves=15, least_rows=100)
"""Settings for devices that were not measured: learn what all others share."""


class Residual(Protocol):
    """Learns the residual from features."""

    def fit(self, table: Floats, target: Floats) -> None: ...
    def predict(self, table: Floats) -> Floats: ...
    def save(self, path: Path) -> dict[str, Any]: ...
    def load(self, path: Path, card: dict[str, Any]) -> None: ...


class NoResidual:
    """Leaves the formula as it is."""

    def fit(self, table: Floats, target: Floats) -> None:
        """Do nothing."""

    def predict(self, table: Floats) -> Floats:
        """Return zeros."""
        return np.zeros(len(table))

    def save(self, path: Path) -> dict[str, Any]:
        """Return an empty card."""
        return {}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """Do nothing."""


@dataclass
class Ridge:
    """Regresses on standardised features and their squares, with a column per value of a code.

    A missing value counts as the mean.
    """

    coded: tuple[int, ...]
    penalty: float = 1.0
    _scale: dict[str, list[Any]] = field(default_factory=dict)
    _effects: list[float] = field(default_factory=list)

    def fit(self, table: Floats, target: Floats) -> None:
        """Fit least squares with a penalty."""
        plain = np.delete(table, self.coded, axis=1)
        columns = [_finite(column) for column in plain.T]
        self._scale = {
            "middle": [float(np.mean(column)) for column in columns],
            "spread": [float(np.std(column)) or 1.0 for column in columns],
            "codes": [sorted(set(_finite(table[:, index]).tolist())) for index in self.coded],
        }
        wide = self._wide(table)
        damped = wide.T @ wide + self.penalty * np.eye(wide.shape[1])
        self._effects = np.linalg.solve(damped, wide.T @ target).tolist()

    def predict(self, table: Floats) -> Floats:
        """Return the sum of all effects."""
        return np.asarray(self._wide(table) @ np.array(self._effects), np.float64)

    def save(self, path: Path) -> dict[str, Any]:
        """Return everything, for the card."""
        return {"scale": self._scale, "effects": self._effects}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """Restore what `save` returned."""
        self._scale, self._effects = card["scale"], card["effects"]

    def _wide(self, table: Floats) -> Floats:
        plain = np.delete(table, self.coded, axis=1)
        scaled = (plain - self._scale["middle"]) / self._scale["spread"]
        scaled = np.clip(np.nan_to_num(scaled), -5.0, 5.0)
        one_hot = [
            table[:, index, None] == np.array(codes)
            for index, codes in zip(self.coded, self._scale["codes"], strict=True)
        ]
        return np.column_stack([np.ones(len(table)), scaled, scaled**2, *one_hot])


def _finite(column: Floats) -> Floats:
    values = column[np.isfinite(column)]
    return values if len(values) else np.zeros(1)


@dataclass
class Boosted:
    """Fits LightGBM trees on absolute errors."""

    names: tuple[str, ...]
    coded: tuple[int, ...]
    settings: ResidualTreeSettings = field(default_factory=ResidualTreeSettings)
    _model: lightgbm.Booster | None = None

    def fit(self, table: Floats, target: Floats) -> None:
        """Fit the trees."""
        import lightgbm

        options = {
            "objective": "l1",
            "num_leaves": self.settings.leaves,
            "learning_rate": self.settings.rate,
            "min_data_in_leaf": self.settings.least_rows,
            "feature_fraction": 0.8,
            "bagging_fraction": 0.9,
            "bagging_freq": 1,
            "seed": self.settings.seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }
        data = lightgbm.Dataset(
            table,
            target,
            feature_name=list(self.names),
            categorical_feature=list(self.coded),
            params={"verbose": -1},
        )
        self._model = lightgbm.train(options, data, self.settings.rounds)

    def predict(self, table: Floats) -> Floats:
        """Return the predictions of the trees."""
        assert self._model is not None, "fit comes first"
        return np.asarray(self._model.predict(table, num_threads=1), np.float64)

    def save(self, path: Path) -> dict[str, Any]:
        """Write the trees in LightGBM's text format; return the file name for the card."""
        assert self._model is not None, "fit comes first"
        self._model.save_model(str(path.with_suffix(".txt")))
        return {"file": path.with_suffix(".txt").name}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """Read what `save` wrote."""
        import lightgbm

        self._model = lightgbm.Booster(model_file=str(path.with_name(card["file"])))
