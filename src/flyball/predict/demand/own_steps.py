"""Step time and peak memory of the measured set of our own, from the description of a job.

A step is a sum of work, bytes of weights and of activations, and calls; how much each costs is
learnt for each type of net, and for all together, for types nobody has measured.
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
from flyball.predict.demand.residual import TreeSettings

FILE = "measured_steps.csv"
TARGETS = {"step": "step_s", "memory": "memory_mib"}
"""Columns that are estimated."""
REUSE = {"cnn": 2.0, "rnn": 1.0, "transformer": 1.0, "graph": 1.0}
"""How often a weight is used for a sample: the input's size to this power; else once."""
HOLD, HOLD_ALL = 0.05, 0.03
"""How strongly costs of a type are drawn to those of all, and those of all to one another."""
CACHE_NUMBERS = 2**19
"""Of four bytes in 2 MiB, the second-level cache of a server's core."""
WORDS = ("model_type", "precision", "optimizer", "regularization", "augmentation")
NUMBERS = tuple(name for name in STATED if name not in WORDS)
SETTINGS = TreeSettings(rounds=200, leaves=7, least_rows=8, rate=0.04)


@cache
def own_rows() -> tuple[dict[str, object], ...]:
    """The measured set that ships."""
    with resources.as_file(resources.files("flyball.data").joinpath(FILE)) as path:
        return parsed(path)


def parsed(path: Path) -> tuple[dict[str, object], ...]:
    """A measured table with its numbers as numbers.

    Raises:
        BadInput: it cannot be read.
    """
    return tuple(
        {name: value if name in WORDS else number(row, name) for name, value in row.items()}
        for row in read_rows(path)
    )


class OwnFormula:
    """A sum of counted terms with costs not below 0, learnt type by type.

    Rows are descriptions (`measure.STATED`), and `flops` where `counted` asks for them.
    """

    coded: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __init__(self, target: str, counted: bool = False) -> None:
        """Nothing learnt yet.

        Args:
            target: one of `TARGETS`.
            counted: the operations were counted in the net's graph and are a field of the rows;
                otherwise they are reckoned from the description.
        """
        self.target, self.counted = target, counted
        self.names: tuple[str, ...] = (
            *WORDS,
            *("log_formula", "log_parameters", "log_batch", "log_input", "log_layers"),
            *("log_work", "log_activations", "states", "log_work_over_parameters"),
        )
        self._costs: dict[str, list[float]] = {}
        self._words: dict[str, list[str]] = {}

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Costs for all types together, then for each type on its own."""
        self._words = {name: values_of(rows, name) for name in WORDS}
        terms, types = self._terms(rows), np.array([str(row["model_type"]) for row in rows])
        middle = float(np.mean(logs - np.log(terms.sum(1))))
        shared = _fitted(terms, logs, np.full(terms.shape[1], middle), HOLD_ALL)
        self._costs = {"": np.exp(shared).tolist()}
        for name in self._words["model_type"]:
            own = types == name
            self._costs[name] = np.exp(_fitted(terms[own], logs[own], shared, HOLD)).tolist()

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Logarithm of seconds or MiB."""
        terms = self._terms(rows)
        any_type = self._costs[""]
        costs = [self._costs.get(str(row["model_type"]), any_type) for row in rows]
        sums = np.einsum("ij,ij->i", terms, np.array(costs))
        return np.asarray(np.log(sums), np.float64)

    def features(self, rows: Sequence[Row]) -> Floats:
        """One row of `names` each; rate and iterations do not change a step and are left out."""
        parts = [_Parts(row, self.counted) for row in rows]
        numbers = [
            (
                *(each.parameters, each.batch, each.size, each.layers),
                *(each.work, each.activations),
            )
            for each in parts
        ]
        logs = np.log(np.array(numbers))
        return np.column_stack(
            [
                *(codes(rows, name, self._words[name]) for name in WORDS),
                self.logs(rows),
                logs,
                [each.states for each in parts],
                logs[:, 4] - logs[:, 0],
            ]
        )

    def as_dict(self) -> dict[str, Any]:
        """Costs, for the card."""
        return {
            "target": self.target,
            "counted": self.counted,
            "costs": self._costs,
            "words": self._words,
        }

    def set(self, values: Mapping[str, Any]) -> None:
        """What `as_dict` gave."""
        self.target, self.counted = values["target"], values["counted"]
        self._costs, self._words = values["costs"], values["words"]

    def _terms(self, rows: Sequence[Row]) -> Floats:
        parts = [_Parts(row, self.counted) for row in rows]
        made = [each.step() if self.target == "step" else each.memory() for each in parts]
        return np.array(made, np.float64)


class _Parts:
    """A row, counted."""

    def __init__(self, row: Row, counted: bool) -> None:
        kind = kind_of(str(row["model_type"]))
        self.parameters, self.batch = number(row, "parameters"), number(row, "batch_size")
        self.size, self.layers = number(row, "input_size"), number(row, "layers")
        self.states = STATES.get(str(row["optimizer"]), 1.0)
        self.half = str(row["precision"]) == "bf16"
        self.penalty = str(row["regularization"]) == "l1"
        uses = self.batch * self.size ** REUSE.get(kind, 0.0)
        tables = kind == "recommendation"
        # Tables are looked up, not multiplied: a row for each field.
        rough = 6.0 * uses * (self.size * self.layers if tables else self.parameters)
        # A net without products, such as embeddings alone, has no operations to count.
        self.work = max(float(str(row["flops"])), 1.0) if counted else rough
        self.activations = uses * np.sqrt(self.parameters * self.layers)
        self.inputs = self.batch * self.size ** max(1.0, REUSE.get(kind, 1.0))
        self.calls = self.layers * (self.size if kind == "rnn" else 1.0)
        self.calls += self.size if tables else 0.0

    def step(self) -> list[float]:
        """Terms in units that make costs of about one: 10 GFLOP/s, 1 GB/s, 10 us a call."""
        work, kept, half = self.work * 1e-10, self.activations * 1e-9, float(self.half)
        return [
            *(work * (1.0 - half), work * half, self.parameters * 4e-9),
            self.parameters * (self.states + float(self.penalty)) * 4e-9,
            *(kept * (1.0 - half), kept * half, self.inputs * 1e-8),
            *(self.calls * 1e-5, self.calls * half * 1e-5, 1e-3),
            *(self._spilt(self.activations, self.layers), self._spilt(self.parameters, 1.0)),
        ]

    @staticmethod
    def _spilt(numbers: float, parts: float) -> float:
        """What of them does not stay in the cache from one use to the next, in the same unit."""
        return max(0.0, numbers - parts * CACHE_NUMBERS) * 1e-9

    def memory(self) -> list[float]:
        """Terms in MiB: weights and gradients, moments, activations by width, input, a unit.

        A narrow format has a copy of the weights and workspaces that come with every layer.
        """
        kept, weights = self.activations * 4.0 / 2**20, self.parameters * 4.0 / 2**20
        half = float(self.half)
        return [
            *(weights, weights * self.states, weights * float(self.penalty), weights * half),
            *(kept * (1.0 - half), kept * half, self.inputs * 4.0 / 2**20),
            *(1.0, half, half * self.layers),
        ]


def _fitted(terms: Floats, logs: Floats, start: Floats, hold: float) -> Floats:
    """Logarithms of costs: least squared logarithmic error, drawn towards where they start.

    The draw is what a type with few rows has instead of rows, and what a cost has that hardly
    shows in any of them.
    """
    from scipy.optimize import least_squares

    def errors(costs: Floats) -> Floats:
        return np.concatenate([np.log(terms @ np.exp(costs)) - logs, hold * (costs - start)])

    def slopes(costs: Floats) -> Floats:
        parts = terms * np.exp(costs)
        return np.vstack([parts / parts.sum(1, keepdims=True), hold * np.eye(len(start))])

    found = least_squares(errors, start, slopes, max_nfev=200)
    return np.asarray(found.x, np.float64)


def learner(target: str, counted: bool = False, fold_by: str = "") -> Learner:
    """One that knows nothing yet."""
    return Learner(OwnFormula(target, counted), SETTINGS, fold_by, squared=True)
