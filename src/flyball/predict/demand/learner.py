"""A formula plus a learnt residual, behind the `Estimator` contract.

The residual (none, ridge regression or trees) is chosen by cross-validation inside the training
rows; below 200 rows trees are not tried. The band comes from the same held-out errors.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats, Ints
from flyball.predict.demand.formulas import Formula, Row, codes, measured_logs, values_of
from flyball.predict.demand.residual import (
    Boosted,
    NoResidual,
    Residual,
    ResidualTreeSettings,
    Ridge,
)

LEVELS = (0.05, 0.5, 0.95)
LEAST_ROWS = 10
TREES_FROM = 200
"""Least number of rows at which trees are tried."""
FOLDS = 4
VERSION = 1


class Learner:
    """Predicts quantiles (`LEVELS`) of a measured quantity, in its unit.

    Attributes:
        chosen: the residual on top of the formula: `none`, `ridge` or `trees`.
        tried: cross-validation error of each: mean absolute relative error, or the root of the
            mean squared logarithmic error.
    """

    def __init__(
        self,
        formula: Formula,
        settings: ResidualTreeSettings | None = None,
        fold_by: str = "",
        squared: bool = False,
    ) -> None:
        """Create an unfitted learner.

        Args:
            formula: the analytic estimate; it is fitted too.
            settings: settings of the trees.
            fold_by: a field whose values are left out one by one in cross-validation, for
                estimates of values that were never measured; "" = rows at random.
            squared: judge by squared errors of logarithms, not by relative errors.
        """
        self._squared = squared
        self.formula = formula
        self._fold_by = fold_by
        self.settings = settings or ResidualTreeSettings()
        self.chosen = "none"
        self.tried: dict[str, float] = {}
        self._residual: Residual = NoResidual()
        self._band = (0.0, 0.0, 0.0)

    def fit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Learn from rows with a measured `value`.

        Raises:
            BadInput: there are too few rows, or a row is not valid.
        """
        if len(rows) < LEAST_ROWS:
            raise BadInput(f"{len(rows)} rows to learn from", f"give at least {LEAST_ROWS}")
        logs = measured_logs(rows)
        fold = self._folds(rows)
        table, base = self._unseen(rows, logs, fold)
        errors = {
            name: _held_out(self._new_residual(name), table, logs - base, fold)
            for name in self._candidates(len(rows))
        }
        self.tried = {name: self._score(of_name) for name, of_name in errors.items()}
        self.chosen = min(self.tried, key=lambda name: self.tried[name])
        self._residual = self._new_residual(self.chosen)
        self._residual.fit(table, logs - base)
        self.formula.fit(rows, logs)
        low, high = np.quantile(errors[self.chosen], [LEVELS[0], LEVELS[-1]])
        self._band = (float(low), 0.0, float(high))

    def predict(self, rows: Sequence[Mapping[str, object]]) -> Floats:
        """Return a row of quantiles for each row.

        Raises:
            BadInput: a row is not valid.
        """
        if not rows:
            return np.empty((0, len(LEVELS)))
        logs = self.formula.logs(rows) + self._residual.predict(self.formula.features(rows))
        return np.asarray(np.exp(logs[:, None] + np.array(self._band)), np.float64)

    def save(self, path: Path) -> None:
        """Write a card (JSON) to `path`.json and, if there are trees, their text to `path`.txt."""
        path.parent.mkdir(parents=True, exist_ok=True)
        card = {
            "version": VERSION,
            "formula": type(self.formula).__name__,
            "features": self.formula.names,
            "coefficients": self.formula.as_dict(),
            "chosen": self.chosen,
            "tried": self.tried,
            "settings": asdict(self.settings),
            "levels": LEVELS,
            "band": self._band,
            "residual": self._residual.save(path),
        }
        path.with_suffix(".json").write_text(json.dumps(card, indent=1) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path, formula: Formula) -> Learner:
        """Read what `save` wrote, with a new formula of the same kind.

        Raises:
            BadInput: the model is missing, or of another kind or version.
        """
        try:
            card: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
        except (OSError, ValueError):
            raise BadInput(f"no demand model at {path}", "fit one: predict demand fit") from None
        expected = (VERSION, type(formula).__name__, list(formula.names))
        if (card.get("version"), card.get("formula"), card.get("features")) != expected:
            raise BadInput(f"the demand model at {path} is of another kind", "fit it again")
        learner = cls(formula, ResidualTreeSettings(**card["settings"]))
        formula.restore(card["coefficients"])
        learner.chosen, learner.tried = card["chosen"], card["tried"]
        learner._band = tuple(card["band"])
        learner._residual = learner._new_residual(learner.chosen)
        learner._residual.load(path, card["residual"])
        return learner

    def _folds(self, rows: Sequence[Row]) -> Ints:
        """Return the cross-validation fold of each row."""
        if self._fold_by:
            values = values_of(rows, self._fold_by)
            return codes(rows, self._fold_by, values).astype(np.int64)
        return np.random.default_rng(self.settings.seed).integers(0, FOLDS, len(rows))

    def _score(self, errors: Floats) -> float:
        if self._squared:
            return float(np.sqrt(np.mean(errors**2)))
        return float(np.mean(np.abs(np.expm1(-errors))))

    def _candidates(self, count: int) -> tuple[str, ...]:
        return ("none", "ridge", "trees") if count >= TREES_FROM else ("none", "ridge")

    def _new_residual(self, name: str) -> Residual:
        if name == "trees":
            return Boosted(self.formula.names, self.formula.coded, self.settings)
        return Ridge(self.formula.coded) if name == "ridge" else NoResidual()

    def _unseen(self, rows: Sequence[Row], logs: Floats, fold: Ints) -> tuple[Floats, Floats]:
        """Return features and estimate of each row by a formula that was fitted without it."""
        table = np.empty((len(rows), len(self.formula.names)))
        base = np.empty(len(rows))
        self.formula.fit(rows, logs)
        all_rows = self.formula.features(rows)
        for index in np.unique(fold):
            out, kept = fold == index, fold != index
            partial = copy.deepcopy(self.formula)
            partial.fit(list(compress(rows, kept)), logs[kept])
            left_out = list(compress(rows, out))
            base[out] = partial.logs(left_out)
            # Codes are those of all rows, as a fold may lack values; other features are held out.
            table[out] = partial.features(left_out)
            for column in self.formula.coded:
                table[out, column] = all_rows[out, column]
        return table, base


def _held_out(model: Residual, table: Floats, target: Floats, fold: Ints) -> Floats:
    """Return held-out errors of the residual: measured minus predicted, logarithms."""
    error = target.copy()
    for index in np.unique(fold):
        out = fold == index
        model.fit(table[~out], target[~out])
        error[out] -= model.predict(table[out])
    return error
