"""Steps per second of a model, batch size and gang on a type of device, from like measurements.

The logarithm is a sum of small effects: of the model, the type, the gang and its spread, the
batch size, and of their combinations; each combination is shrunk to the wider ones it belongs to
(ridge regression over all of them at once). A combination that was never measured has the sum of
its parts' effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.predict.demand.formulas import VALUE, Row, codes, number, shared_rows, values_of

PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Candidate penalties on squared effects; the one that predicts left-out rows best is used."""
TYPICAL_BATCH = 32.0


class Throughput:
    """Estimates throughput.

    Rows have `model`, `gpu_type`, `num_gpus`, `consolidated` (1 = one node), `batch_size`.
    """

    names: tuple[str, ...] = ("model", "gpu_type", "log_batch", "devices", "packed", "log_formula")
    coded: tuple[int, ...] = (0, 1)

    def __init__(self) -> None:
        self._mean = 0.0
        self._effects: dict[str, float] = {}
        self._models: list[str] = []
        self._types: list[str] = []

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Fit all effects at once, by ridge regression in its dual form, as rows are few."""
        self._models, self._types = values_of(rows, "model"), values_of(rows, "gpu_type")
        parts = [_parts(row) for row in rows]
        names = sorted({name for part in parts for name in part})
        columns = {name: column for column, name in enumerate(names)}
        table = np.zeros((len(rows), len(columns)))
        for index, part in enumerate(parts):
            for name, value in part.items():
                table[index, columns[name]] = value
        self._mean = float(np.mean(logs))
        effects = table.T @ _weights(table @ table.T, logs - self._mean)
        self._effects = {name: float(effects[column]) for name, column in columns.items()}

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Return the logarithm of steps per second."""
        effects = self._effects
        sums = [sum(effects.get(n, 0.0) * v for n, v in _parts(row).items()) for row in rows]
        return self._mean + np.array(sums, np.float64)

    def features(self, rows: Sequence[Row]) -> Floats:
        """Return the features, named by `names`, of each row."""
        return np.column_stack(
            [
                codes(rows, "model", self._models),
                codes(rows, "gpu_type", self._types),
                [_log_batch(row) for row in rows],
                [number(row, "num_gpus") for row in rows],
                [float(_packed(row)) for row in rows],
                self.logs(rows),
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the effects, for the card."""
        return {
            "mean": self._mean,
            "effects": self._effects,
            "models": self._models,
            "types": self._types,
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `as_dict` returned."""
        self._mean, self._effects = values["mean"], dict(values["effects"])
        self._models, self._types = values["models"], values["types"]


def _weights(likeness: Floats, target: Floats) -> Floats:
    """Return the weights of the rows, with the penalty of least leave-one-out error.

    Those errors need no further fits: they are the weights over the diagonal of the inverse.
    """
    best, chosen = math.inf, np.zeros(len(target))
    for penalty in PENALTIES:
        inverse = np.linalg.inv(likeness + penalty * np.eye(len(target)))
        weights = inverse @ target
        error = float(np.mean(np.abs(np.expm1(-weights / np.diag(inverse)))))
        if error < best:
            best, chosen = error, weights
    return chosen


def _log_batch(row: Row) -> float:
    """Return the octaves above the typical batch size; 0 if none is stated."""
    return math.log2(number(row, "batch_size", TYPICAL_BATCH) / TYPICAL_BATCH)


def _packed(row: Row) -> bool:
    return str(row.get("consolidated")) == "1" or number(row, "num_gpus") == 1


def _parts(row: Row) -> dict[str, float]:
    """Return the effects that a measurement is the sum of, with their factors."""
    model, kind, batch = row.get("model"), row.get("gpu_type"), _log_batch(row)
    gang = f"{number(row, 'num_gpus'):g}{'' if _packed(row) else ' apart'}"
    effects: dict[str, float] = {}
    for where in ("", f"{kind}", f"x{gang}", f"{kind} x{gang}"):
        effects[f"any|{where}"] = 1.0
        effects[f"any|{where}|batch"] = batch / 2.0
        effects[f"{model}|{where}"] = 1.0
        effects[f"{model}|{where}|batch"] = batch / 2.0
        effects[f"{model}|{where}|batch squared"] = batch**2 / 8.0
    size = f"{model} batch {row.get('batch_size')}"
    effects[size] = 1.0
    effects[f"{size}|{kind}"] = 1.0
    effects[f"{size}|x{gang}"] = 0.7
    return effects


def table() -> list[Row]:
    """Return Gavel's measured speeds (of jobs that fitted); `value` is in steps per second."""
    rows = shared_rows("gavel", "gavel_simulation_isolated.csv.gz")
    fitted = (row for row in rows if float(row["steps_per_s"]) > 0.0)
    return [{**row, VALUE: float(row["steps_per_s"])} for row in fitted]
