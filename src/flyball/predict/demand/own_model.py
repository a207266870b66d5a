"""The shipped models of step time and peak memory on one core.

They cover only the families and ranges of the measured set; for anything else there is no
estimate, and the caller falls back to counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.predict.demand.formulas import number
from flyball.predict.demand.learner import Learner
from flyball.predict.demand.own_steps import CATEGORICAL, TARGETS, OwnFormula, own_rows

SHIPPED = "measured_steps_{target}"
"""Name of the model files, in the folder of the table."""
RANGED = ("parameters", "batch_size", "input_size", "layers")
DEFAULTS = {
    "precision": "fp32",
    "optimizer": "adam",
    "regularization": "none",
    "augmentation": "none",
}


class CoreEstimate(NamedTuple):
    """Holds a median with its 90 % band."""

    value: float
    low: float
    high: float


def estimate_on_core(description: Mapping[str, object]) -> dict[str, CoreEstimate] | None:
    """Return seconds (`step`) and MiB (`memory`) of a step on one core of the measured machine.

    None if the family was not measured, a number is not stated, or one is outside the measured
    range of the family.
    """
    row = _row(description)
    if row is None:
        return None
    estimates = {}
    for target in TARGETS:
        low, value, high = _model(target).predict([row])[0].tolist()
        estimates[target] = CoreEstimate(value, low, high)
    return estimates


def _row(description: Mapping[str, object]) -> dict[str, object] | None:
    """Return the description as a row of the measured set; None if it is outside of it."""
    model_type = str(description.get("model_type") or "").lower()
    ranges = _ranges()
    family = next((name for name in ranges if model_type.startswith(name)), None)
    if family is None:
        return None
    row: dict[str, object] = {"model_type": family}
    for name, default in DEFAULTS.items():
        row[name] = str(description.get(name) or default).lower()
        if row[name] not in _categories()[name]:
            return None
    for name in RANGED:
        try:
            row[name] = number(description, name)
        except BadInput:
            return None
        low, high = ranges[family][name]
        if not low <= float(str(row[name])) <= high:
            return None
    return row


@cache
def _ranges() -> dict[str, dict[str, tuple[float, float]]]:
    """Return the range of each number by family."""
    ranges: dict[str, dict[str, tuple[float, float]]] = {}
    for row in own_rows():
        of_family = ranges.setdefault(str(row["model_type"]), {})
        for name in RANGED:
            value = float(str(row[name]))
            low, high = of_family.get(name, (value, value))
            of_family[name] = (min(low, value), max(high, value))
    return ranges


@cache
def _categories() -> dict[str, set[str]]:
    return {name: {str(row[name]) for row in own_rows()} for name in CATEGORICAL}


@cache
def _model(target: str) -> Learner:
    with resources.as_file(resources.files("flyball.data")) as folder:
        return Learner.load(folder / SHIPPED.format(target=target), OwnFormula(target))
