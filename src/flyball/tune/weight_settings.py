"""Turns an operator's goals into settings of the tuners: `completion=1` or `work=2,energy=1`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields

from flyball.core.errors import BadInput, UnknownName
from flyball.tune.balance import Balance
from flyball.tune.defer import Defer
from flyball.tune.elastic import Elastic
from flyball.tune.optimise import Weights
from flyball.tune.power import Power
from flyball.tune.share import Share

GOALS = tuple(goal.name for goal in fields(Weights))
DEFAULTS: dict[str, Defer | Elastic | Share | Balance | Power] = {
    "defer": Defer(),
    "elastic": Elastic(),
    "share": Share(),
    "balance": Balance(),
    "power": Power(),
}
"""Tuners that weights change, with their default settings."""


def read_weights(text: str) -> Weights:
    """Return the weights of a text; goals that it does not name count nothing.

    Raises:
        BadInput: an unknown goal, no number, a negative weight, or none above 0.
    """
    weights = dict.fromkeys(GOALS, 0.0)
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in weights:
            raise UnknownName("goal", name, GOALS)
        try:
            weights[name] = float(value) if equals else math.nan
        except ValueError:
            weights[name] = math.nan
        if math.isnan(weights[name]):
            raise BadInput(
                f"weights {text!r}: {part.strip()!r} has no number", "write completion=1"
            )
    return Weights(**weights)


def weight_settings(text: str, tuners: Iterable[str]) -> list[str]:
    """Return the settings of these tuners that weights change, as `elastic.eta=0.1`.

    Raises:
        BadInput: the text is not understood, or weights change none of the tuners.
    """
    weights, chosen = read_weights(text), [name for name in tuners if name in DEFAULTS]
    if not chosen:
        raise BadInput(
            f"--weights {text} changes none of the tuners", f"add --tune {','.join(DEFAULTS)}"
        )
    changed = []
    for name in chosen:
        default = DEFAULTS[name]
        weighted = getattr(weights, name)(default)
        for setting in fields(default):
            value = getattr(weighted, setting.name)
            if value != getattr(default, setting.name):
                changed.append(f"{name}.{setting.name}={value!r}")
    return changed
