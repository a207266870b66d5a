"""What the parts of `flyball bench submit` share: their setting, and rows with a bar."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class SubmitSetting:
    """Where and how large.

    Attributes:
        folder: for state folders; on the disk that is to be measured.
        quick: small sizes, for a first look.
        note: told what is being done.
    """

    folder: Path
    quick: bool
    note: Callable[[str], None]

    def size(self, whole: int, quick: int) -> int:
        """One of the two."""
        return quick if self.quick else whole


def at_least(figure: str, value: float, unit: str, bar: float | None, **more: Any) -> Row:
    """A figure that should be large; without a bar it is there to compare with."""
    return _row(figure, value, unit, bar, None if bar is None else value >= bar, more)


def at_most(figure: str, value: float, unit: str, bar: float | None, **more: Any) -> Row:
    """A figure that should be small."""
    return _row(figure, value, unit, bar, None if bar is None else value <= bar, more)


def _row(
    figure: str, value: float, unit: str, bar: float | None, holds: bool | None, more: Row
) -> Row:
    """The load is that of the moment: what others do on the machine is in every figure."""
    row = {"figure": figure, "value": value, "unit": unit, "bar": bar, "holds": holds}
    return {**row, "load_1m": os.getloadavg()[0], **more}
