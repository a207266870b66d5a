"""The shipped models of step time and peak memory on one core, for descriptions like those
that were measured.

They speak only for the families and within the ranges of the measured set; for anything else there
is no answer, and whoever asked goes on with counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

from flyball.core.errors import BadInput
from flyball.predict.demand.formulas import number
from flyball.predict.demand.learner import Learner
from flyball.predict.demand.own_steps import TARGETS, WORDS, OwnFormula, own_rows

SHIPPED = "measured_steps_{target}"
"""Names of the model files beside the table."""
RANGED = ("parameters", "batch_size", "input_size", "layers")
USUAL = {"precision": "fp32", "optimizer": "adam", "regularization": "none", "augmentation": "none"}


class Learnt(NamedTuple):
    """A median with its 90 % band."""

    value: float
    low: float
    high: float


def learnt(description: Mapping[str, object]) -> dict[str, Learnt] | None:
    """Seconds (`step`) and MiB (`memory`) of a step on one core of the machine that was measured.

    None if the family was not measured, a number is not stated, or one is outside of what was
    measured of the family: the models were not made for it.
    """
    row = _row(description)
    if row is None:
        return None
    made = {}
    for target in TARGETS:
        low, value, high = _model(target).predict([row])[0].tolist()
        made[target] = Learnt(value, low, high)
    return made


def _row(description: Mapping[str, object]) -> dict[str, object] | None:
    """The description in the words of the measured set; None if it does not fit it."""
    asked = str(description.get("model_type") or "").lower()
    ranges = _ranges()
    family = next((name for name in ranges if asked.startswith(name)), None)
    if family is None:
        return None
    row: dict[str, object] = {"model_type": family}
    for name, usual in USUAL.items():
        row[name] = str(description.get(name) or usual).lower()
        if row[name] not in _words()[name]:
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
    """Least and most of each number, family by family."""
    made: dict[str, dict[str, tuple[float, float]]] = {}
    for row in own_rows():
        known = made.setdefault(str(row["model_type"]), {})
        for name in RANGED:
            value = float(str(row[name]))
            low, high = known.get(name, (value, value))
            known[name] = (min(low, value), max(high, value))
    return made


@cache
def _words() -> dict[str, set[str]]:
    return {name: {str(row[name]) for row in own_rows()} for name in WORDS}


@cache
def _model(target: str) -> Learner:
    with resources.as_file(resources.files("flyball.data")) as folder:
        return Learner.load(folder / SHIPPED.format(target=target), OwnFormula(target))
