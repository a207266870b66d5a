"""Step time and peak memory from the description of a job, learnt from our measured set.

A step is a sum of work, bytes of weights and of activations, and calls; their costs are learnt for
each type of net, and for all together, for types that were not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.predict.demand.counts import STATES, kind_of
from flyball.predict.demand.formulas import Row, codes, number, values_of
from flyball.predict.demand.learner import Learner
from flyball.predict.demand.measure import STATED, read_rows
from flyball.predict.demand.residual import ResidualTreeSettings

FILE = "measured_steps.csv"
TARGETS = {"step": "step_s", "memory": "memory_mib"}
"""Columns of the estimated quantities, by target."""
REUSE = {"cnn": 2.0, "rnn": 1.0, "transformer": 1.0, "graph": 1.0}
"""Power of the input size that gives how often a weight is used per sample; else once."""
HOLD, HOLD_ALL = 0.05, 0.03
"""How strongly costs of a type are shrunk to those of all, and those of all to one another."""
CACHE_VALUES = 2**19
"""Number of four-byte values in 2 MiB, the second-level cache of a server's core."""
CATEGORICAL = ("model_type", "precision", "optimizer", "regularization", "augmentation")
NUMERIC = tuple(name for name in STATED if name not in CATEGORICAL)
SETTINGS = ResidualTreeSettings(rounds=200, leaves=7, least_rows=8, rate=0.04)


@cache
def own_rows() -> tuple[dict[str, object], ...]:
    """Return the measured set that ships with Flyball."""
    with resources.as_file(resources.files("flyball.data").joinpath(FILE)) as path:
        return parsed(path)


def parsed(path: Path) -> tuple[dict[str, object], ...]:
    """Return a measured table with its numbers parsed.

    Raises:
        BadInput: the file cannot be read.
    """
    return tuple(
        {name: value if name in CATEGORICAL else number(row, name) for name, value in row.items()}
        for row in read_rows(path)
    )


class OwnFormula:
    """Estimates a sum of counted terms with non-negative costs, learnt type by type.

    Rows are descriptions (`measure.STATED`), and `flops` where `counted` asks for them.
    """

    coded: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __init__(self, target: str, counted: bool = False) -> None:
        """Create an unfitted formula.

        Args:
            target: one of `TARGETS`.
            counted: whether the operations were counted in the net's graph and are a field of
                the rows; otherwise they are estimated from the description.
        """
        self.target, self.counted = target, counted
        self.names: tuple[str, ...] = (
            *CATEGORICAL,
            *("log_formula", "log_parameters", "log_batch", "log_input", "log_layers"),
            *("log_work", "log_activations", "states", "log_work_over_parameters"),
        )
        self._costs: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Fit costs for all types together, then for each type."""
        self._words = {name: values_of(rows, name) for name in CATEGORICAL}
        terms, types = self._terms(rows), np.array([str(row["model_type"]) for row in rows])
        middle = float(np.mean(logs - np.log(terms.sum(1))))
        shared = _fitted(terms, logs, np.full(terms.shape[1], middle), HOLD_ALL)
        self._costs = {"": np.exp(shared).tolist()}
        for name in self._words["model_type"]:
            of_type = types == name
            self._costs[name] = np.exp(
                _fitted(terms[of_type], logs[of_type], shared, HOLD)
            ).tolist()

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Return the logarithm of seconds or MiB."""
        terms = self._terms(rows)
        any_type = self._costs[""]
        costs = [self._costs.get(str(row["model_type"]), any_type) for row in rows]
        sums = np.einsum("ij,ij->i", terms, np.array(costs))
        return np.asarray(np.log(sums), np.float64)

    def features(self, rows: Sequence[Row]) -> Floats:
        """Return the features; learning rate and iterations do not affect a step."""
        counts = [_RowCounts(row, self.counted) for row in rows]
        numbers = [
            (
                *(count.parameters, count.batch, count.size, count.layers),
                *(count.work, count.activations),
            )
            for count in counts
        ]
        logs = np.log(np.array(numbers))
        return np.column_stack(
            [
                *(codes(rows, name, self._words[name]) for name in CATEGORICAL),
                self.logs(rows),
                logs,
                [count.states for count in counts],
                logs[:, 4] - logs[:, 0],
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the costs, for the card."""
        return {
            "target": self.target,
            "counted": self.counted,
            "costs": self._costs,
            "words": self._words,
        }

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `as_dict` returned."""
        self.target, self.counted = values["target"], values["counted"]
        self._costs, self._words = values["costs"], values["words"]

    def _terms(self, rows: Sequence[Row]) -> Floats:
        counts = [_RowCounts(row, self.counted) for row in rows]
        terms = [count.step() if self.target == "step" else count.memory() for count in counts]
        return np.array(terms, np.float64)


class _RowCounts:
    """Holds the counts of a row."""

    def __init__(self, row: Row, counted: bool) -> None:
        kind = kind_of(str(row["model_type"]))
        self.parameters, self.batch = number(row, "parameters"), number(row, "batch_size")
        self.size, self.layers = number(row, "input_size"), number(row, "layers")
        self.states = STATES.get(str(row["optimizer"]), 1.0)
        self.half = str(row["precision"]) == "bf16"
        self.penalty = str(row["regularization"]) == "l1"
        uses = self.batch * self.size ** REUSE.get(kind, 0.0)
        tables = kind == "recommendation"
        # Embedding tables are looked up, not multiplied: one row per field.
        rough = 6.0 * uses * (self.size * self.layers if tables else self.parameters)
        # A net without products, such as embeddings alone, has no operations to count.
        self.work = max(float(str(row["flops"])), 1.0) if counted else rough
        self.activations = uses * np.sqrt(self.parameters * self.layers)
        self.inputs = self.batch * self.size ** max(1.0, REUSE.get(kind, 1.0))
        self.calls = self.layers * (self.size if kind == "rnn" else 1.0)
        self.calls += self.size if tables else 0.0

    def step(self) -> list[float]:
        """Return terms in units that give costs of about one: 10 GFLOP/s, 1 GB/s, 10 us a call."""
        work, kept, half = self.work * 1e-10, self.activations * 1e-9, float(self.half)
        return [
            *(work * (1.0 - half), work * half, self.parameters * 4e-9),
            self.parameters * (self.states + float(self.penalty)) * 4e-9,
            *(kept * (1.0 - half), kept * half, self.inputs * 1e-8),
            *(self.calls * 1e-5, self.calls * half * 1e-5, 1e-3),
            *(self._spilled(self.activations, self.layers), self._spilled(self.parameters, 1.0)),
        ]

    @staticmethod
    def _spilled(numbers: float, parts: float) -> float:
        """Return how many values do not stay in the cache between uses, in the same unit."""
        return max(0.0, numbers - parts * CACHE_VALUES) * 1e-9

    def memory(self) -> list[float]:
        """Return terms in MiB: weights and gradients, moments, activations by width, input, a unit.

        A narrow format has a copy of the weights, and workspaces for every layer.
        """
        kept, weights = self.activations * 4.0 / 2**20, self.parameters * 4.0 / 2**20
        half = float(self.half)
        return [
            *(weights, weights * self.states, weights * float(self.penalty), weights * half),
            *(kept * (1.0 - half), kept * half, self.inputs * 4.0 / 2**20),
            *(1.0, half, half * self.layers),
        ]


def _fitted(terms: Floats, logs: Floats, start: Floats, hold: float) -> Floats:
    """Return logarithms of costs by least squared logarithmic error, shrunk to `start`.

    The shrinkage stands in for data where a type has few rows, or a cost affects few of them.
    """
    from scipy.optimize import least_squares

    def errors(costs: Floats) -> Floats:
        return np.concatenate([np.log(terms @ np.exp(costs)) - logs, hold * (costs - start)])

    def slopes(costs: Floats) -> Floats:
        parts = terms * np.exp(costs)
        return np.vstack([parts / parts.sum(1, keepdims=True), hold * np.eye(len(start))])

    solution = least_squares(errors, start, slopes, max_nfev=200)
    return np.asarray(solution.x, np.float64)


def learner(target: str, counted: bool = False, fold_by: str = "") -> Learner:
    """Return an unfitted learner."""
    return Learner(OwnFormula(target, counted), SETTINGS, fold_by, squared=True)
