"""One measured figure of a benchmark, with the bar that it is judged by.

Benchmarks keep their results as rows of JSON, whose keys differ from one to the next. A `Figure` is
what all of them have in common: it decides whether a bar holds, and one printer shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Bar:
    """The range that a figure must lie in.

    Attributes:
        least: lowest value that passes; None = any.
        most: highest value that passes; None = any.
    """

    least: float | None = None
    most: float | None = None

    @classmethod
    def at_least(cls, value: float | None) -> Bar:
        """Return the bar of a figure that should be large; None = no bar."""
        return cls(least=value)

    @classmethod
    def at_most(cls, value: float | None) -> Bar:
        """Return the bar of a figure that should be small; None = no bar."""
        return cls(most=value)

    @property
    def limits(self) -> tuple[float, ...]:
        """The limits that are set, lowest first."""
        return tuple(limit for limit in (self.least, self.most) if limit is not None)

    def holds(self, value: float) -> bool | None:
        """Return whether a value passes; None without a bar."""
        if not self.limits:
            return None
        above = self.least is None or value >= self.least
        return bool(above and (self.most is None or value <= self.most))

    def as_json(self) -> float | list[float] | None:
        """Return the limit as a number, two as [least, most], None without a bar."""
        if len(self.limits) < 2:
            return self.limits[0] if self.limits else None
        return list(self.limits)

    @property
    def text(self) -> str:
        """The bar for people: `at most 5`, `at least 500`, `80 to 97`; empty without a bar."""
        if self.least is None:
            return "" if self.most is None else f"at most {number_text(self.most)}"
        if self.most is None:
            return f"at least {number_text(self.least)}"
        if self.least == self.most:
            return number_text(self.least)
        return f"{number_text(self.least)} to {number_text(self.most)}"


NO_BAR = Bar()
"""The bar of figures that are shown for comparison only."""


@dataclass(frozen=True)
class Figure:
    """One measured value.

    Attributes:
        name: what was measured.
        value: NaN or None = it could not be measured here.
        unit: of the value and the bar; "" if the name states it.
        bar: range that the value must lie in.
        low, high: interval of the value, if one is known.
        labels: what tells figures of the same name apart, such as the policy or the load.
    """

    name: str
    value: float | None
    unit: str = ""
    bar: Bar = NO_BAR
    low: float | None = None
    high: float | None = None
    labels: tuple[str, ...] = ()

    @property
    def holds(self) -> bool | None:
        """Whether the value passes its bar; None without a bar or without a value."""
        return None if self.value is None else self.bar.holds(self.value)

    @property
    def value_text(self) -> str:
        """The value with its unit."""
        if self.value is None:
            return "no data here"
        return f"{number_text(self.value)} {self.unit}".rstrip()

    @property
    def interval_text(self) -> str:
        """The interval: `98.1 to 99.9`; empty if none is known."""
        if self.low is None or self.high is None:
            return ""
        return f"{number_text(self.low)} to {number_text(self.high)}"


def figure_of(row: Mapping[str, Any], name: str, labels: tuple[str, ...] = ()) -> Figure:
    """Return the figure in a row of JSON that holds its verdict.

    Args:
        row: with `value`, `bar`, `holds`, and maybe `unit`, `low` and `high`.
        name: key of the figure's name in the row.
        labels: see `Figure`.
    """
    return Figure(
        str(row[name]),
        row["value"],
        str(row.get("unit", "")),
        _bar_of(row["value"], row["bar"], row["holds"]),
        row.get("low"),
        row.get("high"),
        labels,
    )


def _bar_of(value: float, bar: Any, holds: bool | None) -> Bar:
    """Return the bar of a row: its direction follows from the value and the verdict."""
    if bar is None or value is None:
        return NO_BAR
    if isinstance(bar, list):
        return Bar(*bar)
    if value == bar:
        return Bar(bar, bar)
    return Bar.at_most(bar) if (value < bar) == holds else Bar.at_least(bar)


def number_text(value: float) -> str:
    """Return a number as people read it: four figures, all digits of large ones."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
