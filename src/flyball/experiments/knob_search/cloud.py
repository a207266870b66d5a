"""A cloud of settings around good ones: the distribution that a cross-entropy search draws from.

All settings of a cloud share the choices (order, place, ...). Every number is drawn log-normally
and independently of the others; one that may be 0 (off) is so with a probability of its own.
Elites pull the cloud towards them, and it narrows until it stands around the best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import Field, dataclass, replace
from enum import IntEnum
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs
from flyball.experiments.knob_search.space import (
    limits,
    matters,
    may_be_off,
    normal,
    rounded,
    searched,
    usual,
)

FIRST_SPREAD = 1.0
"""Standard deviation of the logarithm of a number in a new cloud: a factor of 2.7."""
LEAST_SPREAD = 0.05
"""A cloud that is narrower in every number has settled."""
LEARNING = 0.7
"""Weight of the elites; the rest is what the cloud was, so that it does not narrow too soon."""
FIRST_OFF, LEAST_OFF = 0.2, 0.02
"""Probability that a number is drawn as 0 where the first setting has it on; and the least."""
MOST_DRAWS = 100


@dataclass
class _Number:
    """The distribution of one number."""

    knob: Field[Any]
    middle: float
    spread: float
    off: float

    def draw(self, rng: np.random.Generator) -> Any:
        value = math.exp(rng.normal(self.middle, self.spread))
        if rng.random() < self.off:
            return 0.0  # no whole number may be off
        low, high = limits(self.knob)
        return rounded(self.knob, min(max(value, low), high))

    def learn(self, values: Sequence[float]) -> None:
        logs = [math.log(value) for value in values if value > 0]
        if may_be_off(self.knob):
            off = self.off + LEARNING * (1 - len(logs) / len(values) - self.off)
            self.off = min(max(off, LEAST_OFF), 1 - LEAST_OFF)
        if logs:
            self.middle += LEARNING * (fmean(logs) - self.middle)
        if len(logs) > 1:
            self.spread += LEARNING * (pstdev(logs) - self.spread)


class Cloud:
    """Draws settings with the choices of `around`, near it at first."""

    def __init__(self, around: Knobs) -> None:
        self._around = around
        self._numbers = [
            _first(knob, float(getattr(around, knob.name)))
            for knob in searched()
            if not isinstance(knob.default, IntEnum) and matters(knob.name, around)
        ]

    @property
    def settled(self) -> bool:
        """Whether what it draws hardly differs any more."""
        return all(number.spread < LEAST_SPREAD for number in self._numbers)

    def draw(self, rng: np.random.Generator) -> Knobs:
        """Draw a setting that `Knobs` accepts; the one it began with if there is none."""
        for _ in range(MOST_DRAWS):
            values = {number.knob.name: number.draw(rng) for number in self._numbers}
            try:
                return normal(replace(self._around, **values))
            except BadInput:
                continue
        return self._around

    def learn(self, elites: Sequence[Knobs]) -> None:
        """Move towards the elites."""
        for number in self._numbers:
            number.learn([float(getattr(knobs, number.knob.name)) for knobs in elites])


def choices_of(knobs: Knobs) -> tuple[IntEnum, ...]:
    """Return the choices of a setting, which all settings of a cloud share."""
    return tuple(
        getattr(knobs, knob.name) for knob in searched() if isinstance(knob.default, IntEnum)
    )


def _first(knob: Field[Any], value: float) -> _Number:
    off = 0.0
    if may_be_off(knob):
        off = FIRST_OFF if value > 0 else 1 - FIRST_OFF
    if value <= 0:
        value = math.sqrt(math.prod(usual(knob)))
    return _Number(knob, math.log(value), FIRST_SPREAD, off)
