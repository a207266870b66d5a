"""Ours, the mission's net and four tree ensembles on the measured set of our own, same splits.

Everyone learns the logarithm of step time or peak memory from the eleven stated columns; "+ flops"
has the operations counted in the net's graph besides. Figures are of natural logarithms, as R2
over three decades would otherwise be that of the longest steps; MAPE is of the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.errors import Unavailable, UnknownName
from flyball.core.results import Floats
from flyball.experiments.demand.rivals import RIVALS, rival_logs
from flyball.predict.demand.formulas import VALUE, Row, codes, values_of
from flyball.predict.demand.learner import LEVELS
from flyball.predict.demand.own_steps import NUMBERS, TARGETS, WORDS, learner

SEEDS = tuple(range(100, 110))
"""Of the splits that figures are made of; settings were looked at on others."""
TEST_PART = 0.3
NET = "bigru-transformer"
OURS = "flyball"
FLOPS = " + flops"
TUNED = " tuned"
METHODS = (
    *(OURS, OURS + FLOPS, NET, NET + FLOPS),
    *(name + how for name in RIVALS for how in ("", TUNED, TUNED + FLOPS)),
)
PUBLISHED = {
    NET: {"mse": 2.208, "rmse": 1.486, "mae": 0.969, "mape": 0.269, "r2": 0.855},
    "extratrees": {"mse": 4.414, "r2": 0.68},
    "catboost": {"mse": 6.71, "r2": 0.568},
    "xgboost": {"mse": 4.464, "r2": 0.69},
    "lightgbm": {"mse": 2.942, "r2": 0.803},
}
"""On 517 rows that are not public, of a target whose unit is not stated: to be set beside ours,
not to be compared figure by figure."""
Mask = npt.NDArray[np.bool_]


class Estimated(NamedTuple):
    """Logarithms of estimates and of measurements, and whether the band held them.

    Only ours has a band; for the others nothing is inside.
    """

    point: Floats
    actual: Floats
    inside: Mask


class Figures(NamedTuple):
    """How far estimates were from measurements."""

    mse: float
    rmse: float
    mae: float
    mape: float
    r2: float
    coverage: float
    rows: int


def check(method: str, target: str) -> None:
    """Refuse names that are not known.

    Raises:
        UnknownName: one of them.
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if target not in TARGETS:
        raise UnknownName("target", target, TARGETS)


def at_random(rows: Sequence[Row], seed: int) -> Mask:
    """Which rows are the test: 30 %, drawn."""
    test = np.zeros(len(rows), bool)
    order = np.random.default_rng(seed).permutation(len(rows))
    test[order[: round(TEST_PART * len(rows))]] = True
    return test


def of_type(rows: Sequence[Row], name: str) -> Mask:
    """Which rows are of one type of model."""
    return np.array([row["model_type"] == name for row in rows])


def estimate(rows: Sequence[Row], test: Mask, method: str, target: str) -> Estimated:
    """Learn from the rows that are not the test, estimate those that are.

    Raises:
        UnknownName: no such method or target.
        Unavailable: a package is missing.
    """
    check(method, target)
    named = [{**row, VALUE: row[TARGETS[target]]} for row in rows]
    train = [row for row, out in zip(named, test, strict=True) if not out]
    held = [row for row, out in zip(named, test, strict=True) if out]
    logs, actual = _logs(train), _logs(held)
    counted = method.endswith(FLOPS)
    base = method.removesuffix(FLOPS).removesuffix(TUNED)
    inside = np.zeros(len(held), bool)
    if base == OURS:
        made = np.log(_ours(train, held, target, counted))
        point = made[:, LEVELS.index(0.5)]
        inside = (actual >= made[:, 0]) & (actual <= made[:, -1])
    elif base == NET:
        point = _net(train, logs, held, counted)
    else:
        point = _rival(base, train, logs, held, counted, TUNED in method)
    return Estimated(point, actual, inside)


def without_each_type(rows: Sequence[Row], method: str, target: str) -> dict[str, Estimated]:
    """Each type of model estimated from all the others.

    Raises:
        UnknownName: no such method or target.
        Unavailable: a package is missing.
    """
    return {
        name: estimate(rows, of_type(rows, name), method, target)
        for name in values_of(rows, "model_type")
    }


def joined(parts: Sequence[Estimated]) -> Estimated:
    """Several as one."""
    return Estimated(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def figures(made: Estimated) -> Figures:
    """Errors of logarithms; the relative error is that of the values."""
    error = made.point - made.actual
    mse = float(np.mean(error**2))
    return Figures(
        mse=mse,
        rmse=float(np.sqrt(mse)),
        mae=float(np.mean(np.abs(error))),
        mape=float(np.mean(np.abs(np.expm1(error)))),
        r2=1.0 - mse / float(np.var(made.actual)),
        coverage=float(np.mean(made.inside)),
        rows=len(made.actual),
    )


def _logs(rows: Sequence[Mapping[str, Any]]) -> Floats:
    return np.asarray(np.log([float(row[VALUE]) for row in rows]), np.float64)


def _ours(train: Sequence[Row], held: Sequence[Row], target: str, counted: bool) -> Floats:
    # A type that nobody has measured is estimated by what held for types left out in training.
    unseen = {str(row["model_type"]) for row in held} - {str(row["model_type"]) for row in train}
    own = learner(target, counted, "model_type" if unseen else "")
    own.fit(train)
    return own.predict(held)


def _net(train: Sequence[Row], logs: Floats, held: Sequence[Row], counted: bool) -> Floats:
    net = net_module().DemandNet(counted=counted)
    net.fit(train, logs)
    return np.asarray(net.predict(held), np.float64)


def net_module() -> Any:
    """The file with the net.

    Raises:
        Unavailable: there is no torch.
    """
    try:
        return import_module("flyball.experiments.demand.published_net")
    except ImportError:
        raise Unavailable("no torch here", "pip install flyball[learn]") from None


def _rival(
    name: str, train: Sequence[Row], logs: Floats, held: Sequence[Row], counted: bool, tuned: bool
) -> Floats:
    numbers = (*NUMBERS, "flops") if counted else NUMBERS
    tables = []
    for rows in (train, held):
        plain = np.array([[float(str(row[each])) for each in numbers] for row in rows])
        words = [codes(rows, each, values_of(train, each)) for each in WORDS]
        tables.append(np.column_stack([np.log1p(plain), *words]))
    coded = tuple(range(len(numbers), len(numbers) + len(WORDS)))
    return rival_logs(name, tables[0], logs, tables[1], coded, tuned)
