"""What a formula leaves out, learnt from measurements: ridge regression or boosted trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from flyball.core.results import Floats

if TYPE_CHECKING:
    import lightgbm


@dataclass(frozen=True)
class TreeSettings:
    """How trees are grown.

    Attributes:
        rounds: trees.
        leaves: of a tree.
        least_rows: in a leaf.
        rate: of learning.
        seed: of whatever is drawn.
    """

    rounds: int = 400
    leaves: int = 63
    least_rows: int = 5
    rate: float = 0.05
    seed: int = 1


SMOOTH = TreeSettings(rounds=200, leaves=15, least_rows=100)
"""For devices nobody has measured: what holds on all of the others, not what is true of each."""


class Residual(Protocol):
    """Learns numbers from features."""

    def fit(self, table: Floats, target: Floats) -> None: ...
    def predict(self, table: Floats) -> Floats: ...
    def save(self, path: Path) -> dict[str, Any]: ...
    def load(self, path: Path, card: dict[str, Any]) -> None: ...


class Nothing:
    """The formula as it is."""

    def fit(self, table: Floats, target: Floats) -> None:
        """Nothing to learn."""

    def predict(self, table: Floats) -> Floats:
        """Nothing to add."""
        return np.zeros(len(table))

    def save(self, path: Path) -> dict[str, Any]:
        """Nothing to write."""
        return {}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """Nothing to read."""


@dataclass
class Ridge:
    """Straight lines and parabolas of standardised features; a column for each value of a code.

    What is not known counts as the mean.
    """

    coded: tuple[int, ...]
    penalty: float = 1.0
    _scale: dict[str, list[Any]] = field(default_factory=dict)
    _effects: list[float] = field(default_factory=list)

    def fit(self, table: Floats, target: Floats) -> None:
        """Least squares with a penalty."""
        plain = np.delete(table, self.coded, axis=1)
        known = [_known(column) for column in plain.T]
        self._scale = {
            "middle": [float(np.mean(each)) for each in known],
            "spread": [float(np.std(each)) or 1.0 for each in known],
            "codes": [sorted(set(_known(table[:, at]).tolist())) for at in self.coded],
        }
        wide = self._wide(table)
        damped = wide.T @ wide + self.penalty * np.eye(wide.shape[1])
        self._effects = np.linalg.solve(damped, wide.T @ target).tolist()

    def predict(self, table: Floats) -> Floats:
        """The sum of all effects."""
        return np.asarray(self._wide(table) @ np.array(self._effects), np.float64)

    def save(self, path: Path) -> dict[str, Any]:
        """All there is, for the card."""
        return {"scale": self._scale, "effects": self._effects}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """What `save` gave."""
        self._scale, self._effects = card["scale"], card["effects"]

    def _wide(self, table: Floats) -> Floats:
        plain = np.delete(table, self.coded, axis=1)
        scaled = (plain - self._scale["middle"]) / self._scale["spread"]
        scaled = np.clip(np.nan_to_num(scaled), -5.0, 5.0)
        one_hot = [
            table[:, at, None] == np.array(codes)
            for at, codes in zip(self.coded, self._scale["codes"], strict=True)
        ]
        return np.column_stack([np.ones(len(table)), scaled, scaled**2, *one_hot])


def _known(column: Floats) -> Floats:
    found = column[np.isfinite(column)]
    return found if len(found) else np.zeros(1)


@dataclass
class Boosted:
    """LightGBM on absolute errors."""

    names: tuple[str, ...]
    coded: tuple[int, ...]
    settings: TreeSettings = field(default_factory=TreeSettings)
    _model: lightgbm.Booster | None = None

    def fit(self, table: Floats, target: Floats) -> None:
        """Grow the trees."""
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
        """What the trees say."""
        assert self._model is not None, "fit comes first"
        return np.asarray(self._model.predict(table, num_threads=1), np.float64)

    def save(self, path: Path) -> dict[str, Any]:
        """LightGBM's own text."""
        assert self._model is not None, "fit comes first"
        self._model.save_model(str(path.with_suffix(".txt")))
        return {"file": path.with_suffix(".txt").name}

    def load(self, path: Path, card: dict[str, Any]) -> None:
        """What `save` wrote."""
        import lightgbm

        self._model = lightgbm.Booster(model_file=str(path.with_name(card["file"])))
