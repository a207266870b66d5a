"""A formula and what is learnt on top of it, behind the `Estimator` contract.

Which of nothing, ridge regression and trees goes on top is decided by cross-validation inside the
training rows; under 200 rows trees are not tried. The band comes from the same errors: those
of rows that the formula and the residual had not seen.
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
from flyball.predict.demand.residual import Boosted, Nothing, Residual, Ridge, TreeSettings

LEVELS = (0.05, 0.5, 0.95)
LEAST_ROWS = 10
TREES_FROM = 200
"""Rows from which trees are tried."""
FOLDS = 4
VERSION = 1


class Learner:
    """Quantiles (`LEVELS`) of a measured quantity, in its own unit.

    Attributes:
        chosen: what goes on top of the formula: `none`, `ridge` or `trees`.
        tried: what each is judged by in cross-validation: mean absolute relative error, or the
            root of the mean squared logarithmic error.
    """

    def __init__(
        self,
        formula: Formula,
        settings: TreeSettings | None = None,
        fold_by: str = "",
        squared: bool = False,
    ) -> None:
        """A learner that knows nothing yet.

        Args:
            formula: the analytic estimate; it is fitted too.
            settings: of the trees.
            fold_by: a field whose values are left out one by one in cross-validation, for
                estimates of values that were never measured; "" = rows at random.
            squared: judge by squared errors of logarithms, not by relative ones.
        """
        self._squared = squared
        self.formula = formula
        self._fold_by = fold_by
        self.settings = settings or TreeSettings()
        self.chosen = "none"
        self.tried: dict[str, float] = {}
        self._residual: Residual = Nothing()
        self._band = (0.0, 0.0, 0.0)

    def fit(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Learn from rows with a measured `value`.

        Raises:
            BadInput: too few rows, or a row that cannot be read.
        """
        if len(rows) < LEAST_ROWS:
            raise BadInput(f"{len(rows)} rows to learn from", f"give at least {LEAST_ROWS}")
        logs = measured_logs(rows)
        fold = self._folds(rows)
        table, base = self._unseen(rows, logs, fold)
        errors = {
            name: _held_out(self._made(name), table, logs - base, fold)
            for name in self._candidates(len(rows))
        }
        self.tried = {name: self._judged(each) for name, each in errors.items()}
        self.chosen = min(self.tried, key=lambda name: self.tried[name])
        self._residual = self._made(self.chosen)
        self._residual.fit(table, logs - base)
        self.formula.fit(rows, logs)
        low, high = np.quantile(errors[self.chosen], [LEVELS[0], LEVELS[-1]])
        self._band = (float(low), 0.0, float(high))

    def predict(self, rows: Sequence[Mapping[str, object]]) -> Floats:
        """One row of quantiles for each row.

        Raises:
            BadInput: a row that cannot be read.
        """
        if not rows:
            return np.empty((0, len(LEVELS)))
        logs = self.formula.logs(rows) + self._residual.predict(self.formula.features(rows))
        return np.asarray(np.exp(logs[:, None] + np.array(self._band)), np.float64)

    def save(self, path: Path) -> None:
        """A card (JSON) at `path`.json and, if there are trees, their text beside it."""
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
        """What `save` wrote, with a new formula of the same kind.

        Raises:
            BadInput: it is not there, or of another kind or version.
        """
        try:
            card: dict[str, Any] = json.loads(path.with_suffix(".json").read_text("utf-8"))
        except (OSError, ValueError):
            raise BadInput(f"no demand model at {path}", "fit one: predict demand fit") from None
        wanted = (VERSION, type(formula).__name__, list(formula.names))
        if (card.get("version"), card.get("formula"), card.get("features")) != wanted:
            raise BadInput(f"the demand model at {path} is of another kind", "fit it anew")
        made = cls(formula, TreeSettings(**card["settings"]))
        formula.set(card["coefficients"])
        made.chosen, made.tried = card["chosen"], card["tried"]
        made._band = tuple(card["band"])
        made._residual = made._made(made.chosen)
        made._residual.load(path, card["residual"])
        return made

    def _folds(self, rows: Sequence[Row]) -> Ints:
        """The part of the rows each belongs to in cross-validation."""
        if self._fold_by:
            values = values_of(rows, self._fold_by)
            return codes(rows, self._fold_by, values).astype(np.int64)
        return np.random.default_rng(self.settings.seed).integers(0, FOLDS, len(rows))

    def _judged(self, errors: Floats) -> float:
        if self._squared:
            return float(np.sqrt(np.mean(errors**2)))
        return float(np.mean(np.abs(np.expm1(-errors))))

    def _candidates(self, count: int) -> tuple[str, ...]:
        return ("none", "ridge", "trees") if count >= TREES_FROM else ("none", "ridge")

    def _made(self, name: str) -> Residual:
        if name == "trees":
            return Boosted(self.formula.names, self.formula.coded, self.settings)
        return Ridge(self.formula.coded) if name == "ridge" else Nothing()

    def _unseen(self, rows: Sequence[Row], logs: Floats, fold: Ints) -> tuple[Floats, Floats]:
        """Features and formula of each row, by a formula that was fitted without it."""
        table = np.empty((len(rows), len(self.formula.names)))
        base = np.empty(len(rows))
        self.formula.fit(rows, logs)
        whole = self.formula.features(rows)
        for each in np.unique(fold):
            out, rest = fold == each, fold != each
            own = copy.deepcopy(self.formula)
            own.fit(list(compress(rows, rest)), logs[rest])
            left_out = list(compress(rows, out))
            base[out] = own.logs(left_out)
            # Codes must be those of all rows, whatever a fold has; the rest must not have seen it.
            table[out] = own.features(left_out)
            for at in self.formula.coded:
                table[out, at] = whole[out, at]
        return table, base


def _held_out(model: Residual, table: Floats, target: Floats, fold: Ints) -> Floats:
    """Errors (measured less predicted, logarithms) of rows the residual had not seen."""
    error = target.copy()
    for each in np.unique(fold):
        out = fold == each
        model.fit(table[~out], target[~out])
        error[out] -= model.predict(table[out])
    return error
