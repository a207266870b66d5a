"""The settings that a search may try, derived from `Knobs`, so that new knobs are included.

Every combination that `Knobs` accepts is in the space, except for a few knobs that serve other
aims than completion times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import Field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.knobs import Backfill, Knobs, Order, Place, Preempt

NOT_SEARCHED = ("priority_s", "cap", "sleep_s", "solve_s", "move_starts", "move_cost")
"""Knobs that are not searched: the owner decides what a level of priority is worth and how often a
job may be moved, and caps and sleep save energy, not time."""

NOT_ALONE: dict[str, tuple[IntEnum, ...]] = {"order": (Order.SHARES,)}
"""Choices that need more than knobs: an allocator must set the shares."""

USUAL = {
    "depth": (10.0, 3_000.0),
    "hold_s": (60.0, 200_000.0),
    "ageing": (1e-3, 10.0),
    "round_s": (20.0, 3_600.0),
    "margin_s": (1.0, 100_000.0),
    "attained_s": (60.0, 1_000_000.0),
    "move_s": (10.0, 10_000.0),
    "index_size": (0.1, 1.5),
    "index_slope": (0.1, 1.0),
    "index_floor": (0.005, 1.0),
    "index_running": (0.2, 1.5),
}
"""Ranges that random numbers are drawn from; other knobs are drawn around their defaults."""

MATTERS: dict[str, Callable[[Knobs], bool]] = {
    "depth": lambda knobs: knobs.backfill == Backfill.EASY or knobs.place == Place.HOLD,
    "hold_s": lambda knobs: knobs.place == Place.HOLD,
    "round_s": lambda knobs: knobs.preempt != Preempt.NEVER,
    "margin_s": lambda knobs: knobs.preempt != Preempt.NEVER,
    "attained_s": lambda knobs: knobs.order == Order.ATTAINED,
    "evict": lambda knobs: knobs.preempt != Preempt.NEVER,
    "move_s": lambda knobs: knobs.preempt != Preempt.NEVER,
    "index_size": lambda knobs: knobs.order == Order.INDEX,
    "index_slope": lambda knobs: knobs.order == Order.INDEX,
    "index_floor": lambda knobs: knobs.order == Order.INDEX,
    "index_running": lambda knobs: knobs.order == Order.INDEX,
}
"""Tells when a knob makes a difference; a knob that is not here always may."""

OFF_SHARE = 0.4
"""Probability that a number that may be 0 (off) is drawn as 0."""
MOST_DRAWS = 1_000


def searched() -> list[Field[Any]]:
    """Return the knobs that are searched."""
    return [knob for knob in fields(Knobs) if knob.name not in NOT_SEARCHED]


def normal(knobs: Knobs) -> Knobs:
    """Return the same setting with every knob that makes no difference at its default."""
    plain = Knobs()
    idle = {name: getattr(plain, name) for name, matters in MATTERS.items() if not matters(knobs)}
    return replace(knobs, **idle)


def draw(rng: np.random.Generator) -> Knobs:
    """Draw a random setting that `Knobs` accepts."""
    for _ in range(MOST_DRAWS):
        values: dict[str, Any] = {knob.name: _drawn(knob, rng) for knob in searched()}
        try:
            return normal(Knobs(**values))
        except BadInput:
            continue
    raise AssertionError(f"none of {MOST_DRAWS} random settings is accepted")


def neighbours(knobs: Knobs, factor: float) -> Iterator[Knobs]:
    """Yield settings that differ in one knob: another choice, a number times or over `factor`."""
    for knob in searched():
        if knob.name in MATTERS and not MATTERS[knob.name](knobs):
            continue
        for value in _others(knob, getattr(knobs, knob.name), factor):
            try:
                yield normal(replace(knobs, **{knob.name: value}))
            except BadInput:
                continue


def _drawn(knob: Field[Any], rng: np.random.Generator) -> Any:
    if isinstance(knob.default, IntEnum):
        allowed = _choices(knob)
        return allowed[int(rng.integers(len(allowed)))]
    low, high = _usual(knob)
    off = rng.random() < OFF_SHARE
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return 0.0 if off and knob.default == 0 else _rounded(knob, value)


def _choices(knob: Field[Any]) -> list[IntEnum]:
    kind: Any = type(knob.default)
    return [choice for choice in kind if choice not in NOT_ALONE.get(knob.name, ())]


def _others(knob: Field[Any], value: Any, factor: float) -> list[Any]:
    if isinstance(value, IntEnum):
        return [choice for choice in _choices(knob) if choice != value]
    low, high = knob.metadata["low"], knob.metadata["high"]
    if value == 0:
        usual_low, usual_high = _usual(knob)
        return [_rounded(knob, usual_low), _rounded(knob, math.sqrt(usual_low * usual_high))]
    steps = (value / factor, value * factor)
    moved = [_rounded(knob, min(max(step, low), high)) for step in steps]
    if knob.default == 0:
        moved.append(type(knob.default)(0))
    return [other for other in dict.fromkeys(moved) if other != value]


def _usual(knob: Field[Any]) -> tuple[float, float]:
    """Return the range of random values; both ends are above 0."""
    if knob.name in USUAL:
        return USUAL[knob.name]
    low, high = float(knob.metadata["low"]), float(knob.metadata["high"])
    default: Any = knob.default
    middle = float(default) if default > 0 else min(1.0, high)
    return max(middle / 30, low, 1e-9), min(middle * 30, high)


def _rounded(knob: Field[Any], value: float) -> Any:
    """Round to three figures, which is enough and easier to read."""
    short = float(f"{value:.3g}")
    return round(short) if isinstance(knob.default, int) else short
