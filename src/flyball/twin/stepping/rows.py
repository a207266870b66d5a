"""Packs many settings that differ in a few numeric knobs, without building each of them.

rows = KnobRows(Knobs(order=Order.INDEX), ("ageing", "index_size"), actions)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import KNOBS, Knobs
from flyball.core.records import CAP_LEVELS, records
from flyball.core.units import FOREVER_US

Floats = npt.NDArray[np.float64]


def _as_is(values: Floats) -> Floats:
    return values


def _to_us(values: Floats) -> Any:
    return values * 1e6


def _to_whole_us(values: Floats) -> Any:
    return np.rint(values * 1e6)


def _sleep(values: Floats) -> Any:
    whole = _to_whole_us(np.maximum(values, 0.0)).astype(np.int64)
    return np.where(values < 0, FOREVER_US, whole)


def _level(values: Floats) -> Any:
    return np.minimum(CAP_LEVELS - 1, np.rint((1.0 - values) / 0.05))


def _decay(values: Floats) -> Any:
    return math.log(2.0) / (values * 1e6)


PACKED_AS: dict[str, tuple[str, Callable[[Floats], Any]]] = {
    **{
        name: (name, _as_is)
        for name in (
            *("ageing", "priority_s", "margin_s", "promote", "move_cost", "index_size"),
            *("index_slope", "index_floor", "index_running", "order_quantile"),
            "backfill_quantile",
        )
    },
    "hold_s": ("hold_us", _to_us),
    "attained_s": ("attained_us", _to_us),
    "move_s": ("move_us", _to_us),
    "round_s": ("round_us", _to_whole_us),
    "solve_s": ("solve_us", _to_whole_us),
    "sleep_s": ("sleep_us", _sleep),
    "cap": ("cap", _level),
    "half_life_s": ("decay", _decay),
}
"""Field of the packed record and its conversion, by knob."""


class KnobRows:
    """Holds a setting per row: the same base, with other values of some numeric knobs.

    Attributes:
        base: all other knobs.
        packed: the settings as the compiled kernel takes them.
        changes: rows that are set; the others leave their twins' knobs as they are.
    """

    def __init__(self, base: Knobs, names: Sequence[str], values: npt.ArrayLike) -> None:
        """Pack the rows.

        Args:
            base: all other knobs.
            names: numeric knobs; `PACKED_AS` has those that can be set so.
            values: a row per setting, a column per name.

        Raises:
            BadInput: a value out of range, or the wrong number of columns.
        """
        self.base, self._names = base, tuple(names)
        self._values = np.array(values, np.float64)
        if self._values.ndim != 2 or self._values.shape[1] != len(self._names):
            raise BadInput(
                f"values of shape {self._values.shape} for {len(self._names)} knobs",
                "give a row per setting and a column per knob",
            )
        self.packed = records(len(self._values), KNOBS)
        self.changes = np.ones(len(self._values), np.bool_)
        self.packed[:] = base.pack()[0]
        for name, column in zip(self._names, self._values.T, strict=True):
            self._set(name, column)

    def _set(self, name: str, column: Floats) -> None:
        if name not in PACKED_AS:
            raise UnknownName("numeric knob", name, list(PACKED_AS))
        limits = next(entry.metadata for entry in fields(Knobs) if entry.name == name)
        low, high = limits["low"], limits["high"]
        bad = ~((column >= low) & (column <= high))  # also NaN
        if name == "attained_s" and self.base.attained2_s > 0:
            bad |= column >= self.base.attained2_s
        if bad.any():
            raise BadInput(
                f"knob {name} = {column[bad][0]} is out of range",
                f"use {low:g} to {high:g} ({limits['unit']})",
            )
        if name == "move_s" and not replace(self.base, move_s=float(column.max(initial=0.0))).moves:
            return  # without rounds no job moves, whatever is set
        field, convert = PACKED_AS[name]
        self.packed[field] = convert(column)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, at: int) -> Knobs:
        """Return one setting."""
        return replace(self.base, **dict(zip(self._names, self._values[at].tolist(), strict=True)))
