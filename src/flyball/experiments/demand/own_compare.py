"""Compares our estimates, a published net and four tree ensembles on our measured set.

All use the same splits and learn the logarithm of step time or peak memory from the eleven stated
columns; "+ flops" also has the operations counted in the net's graph. Figures are of natural
logarithms, as R2 over three decades would otherwise be that of the longest steps; MAPE is of the
value itself.
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
from flyball.predict.demand.own_steps import CATEGORICAL, NUMERIC, TARGETS, learner

SEEDS = tuple(range(100, 110))
"""Seeds of the splits of the reported figures; settings were chosen on others."""
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
"""Published figures, on 517 rows that are not public, of a target whose unit is not stated: for
context, not comparable figure by figure."""
Mask = npt.NDArray[np.bool_]


class Estimated(NamedTuple):
    """Holds logarithms of estimates and of measurements, and whether the band contains them.

    Only ours has a band; for the others `inside` is false.
    """

    point: Floats
    actual: Floats
    inside: Mask


class Figures(NamedTuple):
    """Holds the errors of estimates."""

    mse: float
    rmse: float
    mae: float
    mape: float
    r2: float
    coverage: float
    rows: int


def check(method: str, target: str) -> None:
    """Refuse unknown names.

    Raises:
        UnknownName: there is no such method or target.
    """
    if method not in METHODS:
        raise UnknownName("method", method, METHODS)
    if target not in TARGETS:
        raise UnknownName("target", target, TARGETS)


def at_random(rows: Sequence[Row], seed: int) -> Mask:
    """Return a mask of the test rows: 30 %, at random."""
    test = np.zeros(len(rows), bool)
    order = np.random.default_rng(seed).permutation(len(rows))
    test[order[: round(TEST_PART * len(rows))]] = True
    return test


def of_type(rows: Sequence[Row], name: str) -> Mask:
    """Return a mask of the rows of one type of model."""
    return np.array([row["model_type"] == name for row in rows])


def estimate(rows: Sequence[Row], test: Mask, method: str, target: str) -> Estimated:
    """Learn from the rows outside the test, estimate those in it.

    Raises:
        UnknownName: there is no such method or target.
        Unavailable: a package is missing.
    """
    check(method, target)
    with_value = [{**row, VALUE: row[TARGETS[target]]} for row in rows]
    train = [row for row, out in zip(with_value, test, strict=True) if not out]
    held = [row for row, out in zip(with_value, test, strict=True) if out]
    logs, actual = _logs(train), _logs(held)
    counted = method.endswith(FLOPS)
    base = method.removesuffix(FLOPS).removesuffix(TUNED)
    inside = np.zeros(len(held), bool)
    if base == OURS:
        quantiles = np.log(_ours(train, held, target, counted))
        point = quantiles[:, LEVELS.index(0.5)]
        inside = (actual >= quantiles[:, 0]) & (actual <= quantiles[:, -1])
    elif base == NET:
        point = _net(train, logs, held, counted)
    else:
        point = _rival(base, train, logs, held, counted, TUNED in method)
    return Estimated(point, actual, inside)


def without_each_type(rows: Sequence[Row], method: str, target: str) -> dict[str, Estimated]:
    """Return estimates of each type of model, learnt from all the others.

    Raises:
        UnknownName: there is no such method or target.
        Unavailable: a package is missing.
    """
    return {
        name: estimate(rows, of_type(rows, name), method, target)
        for name in values_of(rows, "model_type")
    }


def joined(parts: Sequence[Estimated]) -> Estimated:
    """Return several estimates as one."""
    return Estimated(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def figures(estimated: Estimated) -> Figures:
    """Return the errors of logarithms; the relative error is that of the values."""
    error = estimated.point - estimated.actual
    mse = float(np.mean(error**2))
    return Figures(
        mse=mse,
        rmse=float(np.sqrt(mse)),
        mae=float(np.mean(np.abs(error))),
        mape=float(np.mean(np.abs(np.expm1(error)))),
        r2=1.0 - mse / float(np.var(estimated.actual)),
        coverage=float(np.mean(estimated.inside)),
        rows=len(estimated.actual),
    )


def _logs(rows: Sequence[Mapping[str, Any]]) -> Floats:
    return np.asarray(np.log([float(row[VALUE]) for row in rows]), np.float64)


def _ours(train: Sequence[Row], held: Sequence[Row], target: str, counted: bool) -> Floats:
    # For a type without measurements, validate on types left out in training.
    unseen = {str(row["model_type"]) for row in held} - {str(row["model_type"]) for row in train}
    model = learner(target, counted, "model_type" if unseen else "")
    model.fit(train)
    return model.predict(held)


def _net(train: Sequence[Row], logs: Floats, held: Sequence[Row], counted: bool) -> Floats:
    net = net_module().DemandNet(counted=counted)
    net.fit(train, logs)
    return np.asarray(net.predict(held), np.float64)


def net_module() -> Any:
    """Return the module with the net.

    Raises:
        Unavailable: torch is not installed.
    """
    try:
        return import_module("flyball.experiments.demand.published_net")
    except ImportError:
        raise Unavailable("torch is not installed", "pip install flyball[learn]") from None


def _rival(
    name: str, train: Sequence[Row], logs: Floats, held: Sequence[Row], counted: bool, tuned: bool
) -> Floats:
    numbers = (*NUMERIC, "flops") if counted else NUMERIC
    tables = []
    for rows in (train, held):
        plain = np.array([[float(str(row[name])) for name in numbers] for row in rows])
        categories = [codes(rows, name, values_of(train, name)) for name in CATEGORICAL]
        tables.append(np.column_stack([np.log1p(plain), *categories]))
    coded = tuple(range(len(numbers), len(numbers) + len(CATEGORICAL)))
    return rival_logs(name, tables[0], logs, tables[1], coded, tuned)
