"""Demand estimation tasks on measured data, and the scores of each method.

The residual is chosen inside the training rows. Settings of the trees were chosen on other splits
than those of the figures (`SPLITS`); for unseen devices, by leaving out one of the five older
devices at a time: the three newer ones are the test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import Unavailable, UnknownName
from flyball.core.results import Floats
from flyball.predict.demand import memory, operators, step_times, throughput
from flyball.predict.demand.formulas import VALUE, Formula, Row, measured_logs
from flyball.predict.demand.learner import LEVELS, Learner
from flyball.predict.demand.residual import SMOOTH, Boosted, ResidualTreeSettings, Ridge

TEST_PART = 0.3
SPLITS = (100, 101, 102)
"""Seeds of the splits of the reported figures."""
NEW_DEVICES = ("NVIDIA L4", "NVIDIA H100 80GB HBM3", "NVIDIA A100 80GB PCIe")
"""NeuSight's devices that it held out as well."""
METHODS = ("flyball", "formula", "ridge", "lightgbm", "extratrees")


@dataclass(frozen=True)
class Task:
    """Describes one estimation task.

    Attributes:
        target: readable name of the estimated quantity.
        bar: largest acceptable mean absolute relative error.
        formula: creates the analytic estimate.
        rows: reads the measurements.
        settings: settings of the trees.
        unseen: a field and its values that only the test has; None = rows at random.
    """

    name: str
    target: str
    bar: float
    formula: Callable[[], Formula]
    rows: Callable[[], list[Row]]
    settings: ResidualTreeSettings = ResidualTreeSettings()
    unseen: tuple[str, tuple[str, ...]] | None = None

    def learner(self) -> Learner:
        """Return an unfitted learner."""
        return Learner(self.formula(), self.settings, self.unseen[0] if self.unseen else "")


class Score(NamedTuple):
    """Holds the errors of one method on one task."""

    task: str
    method: str
    mape: float
    median: float
    coverage: float
    rows: int
    how: str


def _operators() -> Formula:
    return operators.Operators(operators.chips())


TASKS = {
    task.name: task
    for task in (
        Task("operator", "operator latency", 0.06, _operators, operators.table),
        Task("step", "step time (sia)", 0.06, step_times.StepTimes, step_times.table),
        Task("throughput", "throughput (gavel)", 0.11, throughput.Throughput, throughput.table),
        Task("memory", "memory above context", 0.08, memory.Memory, memory.table),
        Task(
            "operator-new-device",
            "operator latency, unseen device",
            0.22,
            _operators,
            operators.table,
            SMOOTH,
            ("gpu", NEW_DEVICES),
        ),
    )
}


def task_of(name: str) -> Task:
    """Return a task by its name.

    Raises:
        UnknownName: there is no such task.
    """
    if name not in TASKS:
        raise UnknownName("demand task", name, TASKS)
    return TASKS[name]


def split(task: Task, rows: Sequence[Row], seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the test rows."""
    if task.unseen is not None:
        field, values = task.unseen
        return np.array([str(row[field]) in values for row in rows])
    return np.random.default_rng(seed).random(len(rows)) < TEST_PART


def evaluate(task: Task, rows: Sequence[Row], method: str = "flyball", seed: int = 0) -> Score:
    """Learn from one part of the rows, predict the other.

    Raises:
        UnknownName: there is no such method.
        Unavailable: the method's package is not installed.
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    test = split(task, rows, seed)
    train = [row for row, out in zip(rows, test, strict=True) if not out]
    held = [row for row, out in zip(rows, test, strict=True) if out]
    measured = np.array([float(str(row[VALUE])) for row in held])
    coverage, how = float("nan"), ""
    if method == "flyball":
        learner = task.learner()
        learner.fit(train)
        quantiles = learner.predict(held)
        point = quantiles[:, LEVELS.index(0.5)]
        coverage = float(np.mean((measured >= quantiles[:, 0]) & (measured <= quantiles[:, -1])))
        how = {"none": "formula alone"}.get(learner.chosen, f"formula and {learner.chosen}")
    else:
        point = np.exp(_plain(task, method, train, held))
    error = np.abs(point / measured - 1.0)
    return Score(
        *(task.name, method, float(np.mean(error)), float(np.median(error))),
        *(coverage, len(held), how),
    )


def _plain(task: Task, method: str, train: Sequence[Row], held: Sequence[Row]) -> Floats:
    """Return logarithms by a method that has only the features, formula included."""
    formula, logs = task.formula(), measured_logs(train)
    formula.fit(train, logs)
    if method == "formula":
        return formula.logs(held)
    table, other = formula.features(train), formula.features(held)
    if method == "extratrees":
        return _extra_trees(table, logs, other)
    model = (
        Ridge(formula.coded)
        if method == "ridge"
        else Boosted(formula.names, formula.coded, task.settings)
    )
    model.fit(table, logs)
    return model.predict(other)


def _extra_trees(table: Floats, logs: Floats, other: Floats) -> Floats:
    try:
        ensemble = import_module("sklearn.ensemble")
    except ImportError:
        raise Unavailable(
            "scikit-learn is not installed", "install it to compare ExtraTrees"
        ) from None
    model = ensemble.ExtraTreesRegressor(200, random_state=1, n_jobs=1)
    model.fit(np.nan_to_num(table, nan=-1.0), logs)
    return np.asarray(model.predict(np.nan_to_num(other, nan=-1.0)), np.float64)
