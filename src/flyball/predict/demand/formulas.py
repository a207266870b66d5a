"""The contract of an analytic estimate, and code shared by several.

A formula counts what can be counted (operations, bytes, devices) and may have a few coefficients
that it learns. It returns the logarithm of its estimate and the features from which trees learn
the residual.
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
"""Field of a row that holds the measured value."""


class Formula(Protocol):
    """Estimates a quantity analytically.

    Attributes:
        names: names of the features.
        coded: indices of features that are codes without an order.
    """

    names: tuple[str, ...]
    coded: tuple[int, ...]

    def fit(self, rows: Sequence[Row], logs: Floats) -> None: ...
    def logs(self, rows: Sequence[Row]) -> Floats: ...
    def features(self, rows: Sequence[Row]) -> Floats: ...
    def as_dict(self) -> dict[str, Any]: ...
    def restore(self, values: Mapping[str, Any]) -> None: ...


def shared_rows(*parts: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of the shared data.

    Raises:
        DataAbsent: the table is not on this machine.
    """
    with gzip.open(shared_data(*parts), "rt", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def number(row: Row, field: str, default: float | None = None) -> float:
    """Return a positive number of a row.

    Raises:
        BadInput: the field is missing, or not a positive number.
    """
    value = row.get(field)
    if value in (None, "") and default is not None:
        return default
    try:
        result = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        result = math.nan
    if not 0.0 < result < math.inf:
        raise BadInput(f"{field} is {value!r}", "it must be a number above 0")
    return result


def measured_logs(rows: Sequence[Row]) -> Floats:
    """Return the logarithms of the measured values."""
    return np.array([math.log(number(row, VALUE)) for row in rows])


def codes(rows: Sequence[Row], field: str, labels: Sequence[str]) -> Floats:
    """Return the index of each row's value in `labels`; NaN for values that are not in it."""
    indices = {label: float(index) for index, label in enumerate(labels)}
    return np.array([indices.get(str(row.get(field)), math.nan) for row in rows])


def values_of(rows: Sequence[Row], field: str) -> list[str]:
    """Return the distinct values of a field, sorted."""
    return sorted({str(row.get(field)) for row in rows})
