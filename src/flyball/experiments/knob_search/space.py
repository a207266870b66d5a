"""The settings that the tuner may try: read off `Knobs`, so that new knobs and choices join in.

Every combination that `Knobs` accepts is in the space, except for a few knobs that serve other
ends than completion times.
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

LEFT_ALONE = ("priority_s", "cap", "sleep_s", "solve_s")
"""What a level of priority is worth is the owner's word; caps and sleep save energy, not time."""

NOT_ALONE: dict[str, tuple[IntEnum, ...]] = {"order": (Order.SHARES,)}
"""Choices that knobs alone do not make a policy of: somebody must set the shares."""

USUAL = {
    "depth": (10.0, 3_000.0),
    "hold_s": (60.0, 200_000.0),
    "ageing": (1e-3, 10.0),
    "round_s": (20.0, 3_600.0),
    "margin_s": (1.0, 100_000.0),
    "attained_s": (60.0, 1_000_000.0),
}
"""Where random values of a number are drawn from. A knob that is not here: around its default."""

MATTERS: dict[str, Callable[[Knobs], bool]] = {
    "depth": lambda knobs: knobs.backfill == Backfill.EASY or knobs.place == Place.HOLD,
    "hold_s": lambda knobs: knobs.place == Place.HOLD,
    "round_s": lambda knobs: knobs.preempt != Preempt.NEVER,
    "margin_s": lambda knobs: knobs.preempt != Preempt.NEVER,
    "attained_s": lambda knobs: knobs.order == Order.ATTAINED,
}
"""When a knob makes a difference; one that is not here always may."""

OFF_SHARE = 0.4
"""How often a number that may be 0 (off) is drawn as 0."""
MOST_DRAWS = 1_000


def searched() -> list[Field[Any]]:
    """The knobs that are tried."""
    return [each for each in fields(Knobs) if each.name not in LEFT_ALONE]


def normal(knobs: Knobs) -> Knobs:
    """The same setting with every knob that makes no difference at its default."""
    plain = Knobs()
    idle = {name: getattr(plain, name) for name, matters in MATTERS.items() if not matters(knobs)}
    return replace(knobs, **idle)


def draw(rng: np.random.Generator) -> Knobs:
    """A random setting that `Knobs` accepts."""
    for _ in range(MOST_DRAWS):
        values: dict[str, Any] = {each.name: _drawn(each, rng) for each in searched()}
        try:
            return normal(Knobs(**values))
        except BadInput:
            continue
    raise AssertionError(f"none of {MOST_DRAWS} random settings is accepted")


def neighbours(knobs: Knobs, factor: float) -> Iterator[Knobs]:
    """Settings that differ in one knob: any other choice, or a number times or over `factor`."""
    for each in searched():
        if each.name in MATTERS and not MATTERS[each.name](knobs):
            continue
        for value in _others(each, getattr(knobs, each.name), factor):
            try:
                yield normal(replace(knobs, **{each.name: value}))
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
    return [each for each in kind if each not in NOT_ALONE.get(knob.name, ())]


def _others(knob: Field[Any], value: Any, factor: float) -> list[Any]:
    if isinstance(value, IntEnum):
        return [each for each in _choices(knob) if each != value]
    low, high = knob.metadata["low"], knob.metadata["high"]
    if value == 0:
        usual_low, usual_high = _usual(knob)
        return [_rounded(knob, usual_low), _rounded(knob, math.sqrt(usual_low * usual_high))]
    moved = [_rounded(knob, min(max(each, low), high)) for each in (value / factor, value * factor)]
    if knob.default == 0:
        moved.append(type(knob.default)(0))
    return [each for each in dict.fromkeys(moved) if each != value]


def _usual(knob: Field[Any]) -> tuple[float, float]:
    """The range of random values; both ends above 0."""
    if knob.name in USUAL:
        return USUAL[knob.name]
    low, high = float(knob.metadata["low"]), float(knob.metadata["high"])
    default: Any = knob.default
    middle = float(default) if default > 0 else min(1.0, high)
    return max(middle / 30, low, 1e-9), min(middle * 30, high)


def _rounded(knob: Field[Any], value: float) -> Any:
    """Three figures are enough, and easier to read."""
    short = float(f"{value:.3g}")
    return round(short) if isinstance(knob.default, int) else short
