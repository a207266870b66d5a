"""What the parts of `flyball bench submit` share: their setting, and the rows of their figures."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flyball.bench.figure import Bar, Figure

Row = dict[str, Any]


@dataclass(frozen=True)
class SubmitSetting:
    """Says where to measure and how much.

    Attributes:
        folder: parent of the state folders, on the disk to measure.
        quick: small sizes, for a first impression.
        note: receives what is being done.
    """

    folder: Path
    quick: bool
    note: Callable[[str], None]

    def size(self, full: int, quick: int) -> int:
        """Return the size of a full run, or of a quick one."""
        return quick if self.quick else full


def at_least(figure: str, value: float, unit: str, bar: float | None, **more: Any) -> Row:
    """Return the row of a figure that should be large; None = no bar, for comparison only."""
    return _row(Figure(figure, value, unit, Bar.at_least(bar)), more)


def at_most(figure: str, value: float, unit: str, bar: float | None, **more: Any) -> Row:
    """Return the row of a figure that should be small; None = no bar."""
    return _row(Figure(figure, value, unit, Bar.at_most(bar)), more)


def _row(figure: Figure, more: Row) -> Row:
    """Return a row with the load of the moment: other work on the machine affects every figure."""
    return {
        "figure": figure.name,
        "value": figure.value,
        "unit": figure.unit,
        "bar": figure.bar.as_json(),
        "holds": figure.holds,
        "load_1m": os.getloadavg()[0],
        **more,
    }
