"""Sampling periods of each family, from fastest to slowest; the slowest is the default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from flyball.core.errors import BadInput, UnknownName
from flyball.core.units import parse_duration_s


class Range(NamedTuple):
    """Periods of a family, in seconds."""

    fast_s: float
    slow_s: float


FAMILIES: Mapping[str, Range] = {
    "compute": Range(0.01, 0.1),
    "memory": Range(0.05, 0.2),
    "network": Range(0.1, 0.5),
    "power": Range(0.5, 1.0),
    "application": Range(0.2, 0.5),
}
LONGEST_S = 60.0
"""Longest period that may be set: a segment then still holds one row."""

Rates = Mapping[str, float]
"""Period in seconds by family."""

DEFAULT: Rates = {family: periods.slow_s for family, periods in FAMILIES.items()}
FASTEST: Rates = {family: periods.fast_s for family, periods in FAMILIES.items()}


def parse_rates(settings: Iterable[str], start: Rates = DEFAULT) -> Rates:
    """Return periods by family: `start`, changed by settings such as `compute=50ms`.

    Raises:
        UnknownName: no such family.
        BadInput: not a period, or one that is too short or too long.
    """
    rates = dict(start)
    for setting in settings:
        family, mark, text = setting.partition("=")
        if not mark:
            raise BadInput(f"--rate {setting!r} has no period", "write e.g. compute=50ms")
        if family not in FAMILIES:
            raise UnknownName("family", family, FAMILIES)
        period_s, fastest_s = parse_duration_s(text), FAMILIES[family].fast_s
        if not fastest_s <= period_s <= LONGEST_S:
            span = f"{fastest_s * 1e3:g}ms to {LONGEST_S:g}s"
            raise BadInput(f"--rate {setting!r} is not a period", f"use {span}")
        rates[family] = period_s
    return rates
