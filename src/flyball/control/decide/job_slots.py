"""The record kept of each active job, and numbers for shapes of jobs that are alike."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import numpy as np

SLOT = np.dtype(
    [
        ("id", "i8"),
        ("submit_us", "i8"),
        ("estimate_us", "f8"),
        ("limit_us", "i8"),
        ("priority", "f8"),
        ("service_us", "f8"),
        ("since_us", "i8"),
        ("queued_us", "i8"),
        ("cpu_milli", "i8"),
        ("host_mib", "i8"),
        ("array", "i8"),
        ("array_limit", "i8"),
        ("devices", "i4"),
        ("least", "i4"),
        ("most", "i4"),
        ("cap", "i4"),
        ("milli", "i4"),
        ("tenant", "i4"),
        ("user", "i4"),
        ("model", "i4"),
        ("kind", "i4"),
        ("attempt", "i4"),
        ("pools", "i8"),
        ("like", "i4"),
        ("used", "u1"),
    ]
)
_NAMES = SLOT.names or ()
SHAPE_VALUES = itemgetter(
    *map(
        _NAMES.index,
        (
            *("estimate_us", "limit_us", "priority", "cpu_milli", "host_mib", "array", "devices"),
            *("milli", "tenant", "user", "model", "kind", "least", "most", "pools"),
        ),
    )
)
"""Selects the fields that make up a shape: jobs equal in them differ only in submission time."""
SPARE = 10_000
"""Number of shapes without jobs that may be kept."""


class ShapeNumbers:
    """Assigns numbers to shapes: jobs alike have the same number.

    No decision depends on which number that is.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}

    def number(self, values: tuple[Any, ...]) -> int:
        """Return the number of the shape with these values."""
        return self._numbers.setdefault(values, len(self._numbers))

    def too_many(self, jobs: int) -> bool:
        """Whether most shapes have no jobs any more."""
        return len(self._numbers) > 2 * jobs + SPARE

    def renumber(self, rows: Iterable[tuple[Any, ...]]) -> list[int]:
        """Forget all shapes but those of these jobs; return their new numbers."""
        self._numbers = {}
        return [self.number(values) for values in rows]
