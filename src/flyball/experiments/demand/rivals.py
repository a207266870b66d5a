"""Tree ensembles that ours is compared with, tuned as far as a fair comparison allows.

All get the twelve columns as stated, numbers as logarithms, and learn the logarithm of the measured
value. Tuned means: the best of a few settings, among them the package's defaults, on a held-out
quarter of the training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from flyball.core.errors import Unavailable
from flyball.core.results import Floats

ModelFactory = Callable[[Mapping[str, Any], tuple[int, ...]], Any]
HELD_OUT = 0.25


@dataclass(frozen=True)
class Rival:
    """Describes the ensemble of one package.

    Attributes:
        package: name to install.
        make: takes settings and indices of coded columns, returns an object with `fit`, `predict`.
        settings: candidates; the first is the package's default.
    """

    package: str
    make: ModelFactory
    settings: tuple[Mapping[str, Any], ...]


def _extra_trees(settings: Mapping[str, Any], coded: tuple[int, ...]) -> Any:
    kind = import_module("sklearn.ensemble").ExtraTreesRegressor
    return _OneHot(kind(random_state=1, n_jobs=1, **settings), coded)


def _catboost(settings: Mapping[str, Any], coded: tuple[int, ...]) -> Any:
    kind = import_module("catboost").CatBoostRegressor
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, "random_seed": 1}
    return _OneHot(kind(**quiet, **settings), coded)


def _xgboost(settings: Mapping[str, Any], coded: tuple[int, ...]) -> Any:
    kind = import_module("xgboost").XGBRegressor
    return _OneHot(kind(n_jobs=1, random_state=1, **settings), coded)


class _OneHot:
    """Encodes codes one-hot, which suits all three packages if there are few values."""

    def __init__(self, model: Any, coded: tuple[int, ...]) -> None:
        self._model, self._coded = model, coded
        self._values: list[Floats] = []

    def fit(self, table: Floats, logs: Floats) -> None:
        """Fit the model."""
        self._values = [np.unique(table[:, index]) for index in self._coded]
        self._model.fit(self._wide(table), logs)

    def predict(self, table: Floats) -> Floats:
        """Return logarithms."""
        return np.asarray(self._model.predict(self._wide(table)), np.float64)

    def _wide(self, table: Floats) -> Floats:
        plain = np.delete(table, self._coded, axis=1)
        pairs = zip(self._coded, self._values, strict=True)
        return np.column_stack(
            [plain, *(table[:, index, None] == values for index, values in pairs)]
        )


class _LightGbm:
    """Uses LightGBM's treatment of codes."""

    def __init__(self, settings: Mapping[str, Any], coded: tuple[int, ...]) -> None:
        self._settings, self._coded = dict(settings), list(coded)
        self._model: Any = None

    def fit(self, table: Floats, logs: Floats) -> None:
        """Fit the model."""
        import lightgbm

        quiet = {"verbose": -1, "num_threads": 1, "seed": 1, "deterministic": True}
        settings = {**quiet, "force_row_wise": True, **self._settings}
        rounds = int(settings.pop("rounds", 100))
        data = lightgbm.Dataset(
            table, logs, categorical_feature=self._coded, params={"verbose": -1}
        )
        self._model = lightgbm.train(settings, data, rounds)

    def predict(self, table: Floats) -> Floats:
        """Return logarithms."""
        return np.asarray(self._model.predict(table, num_threads=1), np.float64)


RIVALS = {
    "extratrees": Rival(
        "scikit-learn",
        _extra_trees,
        (
            {},
            {"n_estimators": 300, "max_features": 0.5},
            {"n_estimators": 300, "min_samples_leaf": 2},
        ),
    ),
    "catboost": Rival(
        "catboost",
        _catboost,
        (
            {},
            {"iterations": 600, "depth": 4, "learning_rate": 0.08},
            {"iterations": 600, "depth": 5, "learning_rate": 0.08, "l2_leaf_reg": 1.0},
        ),
    ),
    "xgboost": Rival(
        "xgboost",
        _xgboost,
        (
            {},
            {"n_estimators": 600, "max_depth": 3, "learning_rate": 0.08, "subsample": 0.8},
            {"n_estimators": 400, "max_depth": 5, "learning_rate": 0.05, "subsample": 0.8},
        ),
    ),
    "lightgbm": Rival(
        "lightgbm",
        _LightGbm,
        (
            {},
            {"rounds": 600, "num_leaves": 7, "min_data_in_leaf": 5, "learning_rate": 0.08},
            {"rounds": 400, "num_leaves": 15, "min_data_in_leaf": 5, "learning_rate": 0.05},
        ),
    ),
}


def rival_logs(
    name: str, table: Floats, logs: Floats, other: Floats, coded: tuple[int, ...], tuned: bool
) -> Floats:
    """Fit a rival on one table and return its predictions for another.

    Raises:
        Unavailable: the package is not installed.
    """
    rival = RIVALS[name]
    try:
        settings = _chosen(rival, table, logs, coded) if tuned else rival.settings[0]
        model = rival.make(settings, coded)
    except ImportError:
        raise Unavailable(
            f"{rival.package} is not installed", f"pip install {rival.package}"
        ) from None
    model.fit(table, logs)
    return np.asarray(model.predict(other), np.float64)


def _chosen(rival: Rival, table: Floats, logs: Floats, coded: tuple[int, ...]) -> Mapping[str, Any]:
    """Return the settings with the least squared error on held-out training rows."""
    out = np.random.default_rng(0).random(len(logs)) < HELD_OUT
    errors = []
    for settings in rival.settings:
        model = rival.make(settings, coded)
        model.fit(table[~out], logs[~out])
        errors.append(float(np.mean((model.predict(table[out]) - logs[out]) ** 2)))
    return rival.settings[int(np.argmin(errors))]
