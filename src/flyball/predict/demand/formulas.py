"""The contract of an analytic estimate, and what several of them share.

A formula counts what can be counted (operations, bytes, devices) and may have a few coefficients
that it learns. It gives the logarithm of its estimate and the features from which trees learn
what it leaves out.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats
from flyball.core.shared_data import shared_data

Row = Mapping[str, object]
VALUE = "value"
"""The field of a row that holds what was measured."""


class Formula(Protocol):
    """An analytic estimate.

    Attributes:
        names: of the features.
        coded: places of features that are codes and have no order.
    """

    names: tuple[str, ...]
    coded: tuple[int, ...]

    def fit(self, rows: Sequence[Row], logs: Floats) -> None: ...
    def logs(self, rows: Sequence[Row]) -> Floats: ...
    def features(self, rows: Sequence[Row]) -> Floats: ...
    def as_dict(self) -> dict[str, Any]: ...
    def set(self, values: Mapping[str, Any]) -> None: ...


def shared_rows(*parts: str) -> Iterator[dict[str, str]]:
    """Rows of a table of the shared data.

    Raises:
        DataAbsent: it is not on this machine.
    """
    with gzip.open(shared_data(*parts), "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def number(row: Row, field: str, default: float | None = None) -> float:
    """A positive number of a row.

    Raises:
        BadInput: it is not there, or not a positive number.
    """
    value = row.get(field)
    if value in (None, "") and default is not None:
        return default
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not 0.0 < found < math.inf:
        raise BadInput(f"{field} is {value!r}", "it must be a number above 0")
    return found


def measured_logs(rows: Sequence[Row]) -> Floats:
    """Logarithms of what was measured."""
    return np.array([math.log(number(row, VALUE)) for row in rows])


def codes(rows: Sequence[Row], field: str, known: Sequence[str]) -> Floats:
    """Places of a field's values in a list; NaN for those that are not in it."""
    places = {name: float(at) for at, name in enumerate(known)}
    return np.array([places.get(str(row.get(field)), math.nan) for row in rows])


def values_of(rows: Sequence[Row], field: str) -> list[str]:
    """The different values of a field, in order."""
    return sorted({str(row.get(field)) for row in rows})
