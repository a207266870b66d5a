"""What is searched: numbers within bounds, as points of the unit cube.

A search sees points only. What a coordinate means - its bounds, whether its logarithm is what
counts, whether it is a whole number - is said once, beside the setting itself (`searched`).
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np

from flyball.core.results import Floats

Settings = TypeVar("Settings")
KEY = "searched"


@dataclass(frozen=True)
class Bounds:
    """Bounds of one searched number.

    Attributes:
        low, high: least and greatest value.
        log: whether equal factors are equal steps.
    """

    low: float
    high: float
    log: bool = False

    def value(self, part: float) -> float:
        """Return the value at a part of the way from low to high."""
        part = min(max(part, 0.0), 1.0)
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return math.exp(low + part * (high - low))
        return self.low + part * (self.high - self.low)

    def part(self, value: float) -> float:
        """Return how far from low to high a value is, from 0 to 1."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return min(max((value - low) / (high - low), 0.0), 1.0)


def searched(default: Any, low: float, high: float, log: bool = False) -> Any:
    """Return a dataclass field whose value a search may change."""
    return field(default=default, metadata={KEY: Bounds(low, high, log)})


def searched_fields(settings: Any) -> list[Field[Any]]:
    """Return the fields of a dataclass that a search may change."""
    return [one for one in fields(settings) if KEY in one.metadata]


def point_of(settings: Any) -> Floats:
    """Return where settings are in the unit cube."""
    values = [
        one.metadata[KEY].part(float(getattr(settings, one.name)))
        for one in searched_fields(settings)
    ]
    return np.array(values)


def at_point(settings: Settings, point: Floats) -> Settings:
    """Return the settings with the searched numbers taken from a point."""
    changes: dict[str, Any] = {}
    for one, part in zip(searched_fields(settings), point, strict=True):
        value = one.metadata[KEY].value(float(part))
        changes[one.name] = round(value) if isinstance(one.default, int) else value
    return replace(settings, **changes)  # type: ignore[type-var]
