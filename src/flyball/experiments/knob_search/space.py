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

NOT_SEARCHED = (
    *("priority_s", "cap", "sleep_s", "preempt_starts", "move_starts", "move_cost"),
    *("solve_s", "types", "shuffle_seed", "starts", "leftover", "turns", "optimum"),
)
"""Knobs that are not searched: the owner decides what a level of priority is worth and how often a
job may be preempted or moved, caps and sleep save energy, not time, and target shares need an
allocator."""

NOT_ALONE: dict[str, tuple[IntEnum, ...]] = {"order": (Order.SHARES,)}
"""Choices that need more than knobs: an allocator must set the shares."""

USUAL = {
    "depth": (10.0, 3_000.0),
    "hold_s": (60.0, 200_000.0),
    "ageing": (1e-3, 10.0),
    "round_s": (120.0, 3_600.0),
    "margin_s": (1.0, 100_000.0),
    "attained_s": (60.0, 1_000_000.0),
    "move_s": (10.0, 10_000.0),
    "index_size": (0.1, 1.5),
    "index_slope": (0.1, 1.0),
    "index_floor": (0.005, 1.0),
    "index_running": (0.2, 1.5),
    "order_quantile": (0.2, 0.95),
    "backfill_quantile": (0.2, 0.95),
}
"""Ranges that random numbers are drawn from; other knobs are drawn around their defaults."""

LEAST = {"round_s": 120.0}
"""Least values that are searched, above the knobs' own: rounds must be longer than a checkpoint
takes, and every round on a large cluster costs time."""

ESTIMATING = (Order.SHORTEST, Order.AREA, Order.REMAINING, Order.INDEX)
"""Orders by estimates of run times."""

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
    "attained2_s": lambda knobs: knobs.order == Order.ATTAINED,
    "promote": lambda knobs: knobs.order == Order.ATTAINED,
    "half_life_s": lambda knobs: knobs.order == Order.FAIR,
    "order_quantile": lambda knobs: knobs.order in ESTIMATING,
    "backfill_quantile": lambda knobs: (
        knobs.backfill == Backfill.EASY or knobs.place == Place.HOLD or knobs.moves
    ),
}
"""Tells when a knob makes a difference; a knob that is not here always may."""

OFF_SHARE = 0.4
"""Probability that a number that may be 0 (off) is drawn as 0."""
MOST_DRAWS = 1_000


def searched() -> list[Field[Any]]:
    """Return the knobs that are searched."""
    return [knob for knob in fields(Knobs) if knob.name not in NOT_SEARCHED]


def matters(name: str, knobs: Knobs) -> bool:
    """Return whether a knob makes a difference beside the others."""
    return name not in MATTERS or MATTERS[name](knobs)


def limits(knob: Field[Any]) -> tuple[float, float]:
    """Return the least and the largest value of a number that are searched, besides 0 = off."""
    return LEAST.get(knob.name, float(knob.metadata["low"])), float(knob.metadata["high"])


def may_be_off(knob: Field[Any]) -> bool:
    """Return whether a number may be 0, which turns it off."""
    return bool(knob.default == 0)


def normal(knobs: Knobs) -> Knobs:
    """Return the same setting with every knob that makes no difference at its default."""
    plain = Knobs()
    idle = {name: getattr(plain, name) for name in MATTERS if not matters(name, knobs)}
    return replace(knobs, **idle)


def draw(rng: np.random.Generator, base: Knobs | None = None) -> Knobs:
    """Draw a random setting that `Knobs` accepts; what is not searched is as in `base`."""
    base = base or Knobs()
    for _ in range(MOST_DRAWS):
        values: dict[str, Any] = {knob.name: _drawn(knob, rng) for knob in searched()}
        try:
            return normal(replace(base, **values))
        except BadInput:
            continue
    raise AssertionError(f"none of {MOST_DRAWS} random settings is accepted")


def other_choices(knobs: Knobs) -> Iterator[Knobs]:
    """Yield the settings that differ in one choice."""
    for knob in searched():
        if not isinstance(knob.default, IntEnum) or not matters(knob.name, knobs):
            continue
        for choice in _choices(knob):
            if choice == getattr(knobs, knob.name):
                continue
            changed: dict[str, Any] = {knob.name: choice}
            try:
                yield normal(replace(knobs, **changed))
            except BadInput:
                continue


def _drawn(knob: Field[Any], rng: np.random.Generator) -> Any:
    if isinstance(knob.default, IntEnum):
        allowed = _choices(knob)
        return allowed[int(rng.integers(len(allowed)))]
    low, high = usual(knob)
    off = rng.random() < OFF_SHARE
    value = math.exp(rng.uniform(math.log(low), math.log(high)))
    return 0.0 if off and may_be_off(knob) else rounded(knob, value)


def _choices(knob: Field[Any]) -> list[IntEnum]:
    kind: Any = type(knob.default)
    return [choice for choice in kind if choice not in NOT_ALONE.get(knob.name, ())]


def usual(knob: Field[Any]) -> tuple[float, float]:
    """Return the range of random values; both ends are above 0."""
    if knob.name in USUAL:
        return USUAL[knob.name]
    low, high = float(knob.metadata["low"]), float(knob.metadata["high"])
    default: Any = knob.default
    middle = float(default) if default > 0 else min(1.0, high)
    return max(middle / 30, low, 1e-9), min(middle * 30, high)


def rounded(knob: Field[Any], value: float) -> Any:
    """Round to three figures, which is enough and easier to read."""
    short = float(f"{value:.3g}")
    return round(short) if isinstance(knob.default, int) else short
