"""Constraints on a policy, and the multipliers that enforce them.

A constraint bounds what a policy may do to a figure, relative to the incumbent in the same problem:
`fairness=0.1` lets the 95 % quantile of finish-time fairness be 10 % worse on average. While it is
broken its multiplier rises and the objective counts every further percent; while it holds the
multiplier falls towards 0 (dual ascent), so the constraint costs nothing where it does not bind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from flyball.core.errors import BadInput, UnknownName
from flyball.core.results import Floats
from flyball.learn.whole_runs import RunTotals

FIGURES = {
    "completion": "completion_s",
    "slo": "wait_p99_s",
    "fairness": "fairness_p95",
    "power": "peak_w",
}
"""Constraints, and the figures of a run that they bound: mean completion time; the wait that one
job in a hundred exceeds; finish-time fairness; the highest draw of an epoch."""
RATE = 2.0
"""How much a multiplier rises for each part by which its constraint is broken, per update."""
MOST = 20.0
LEAST = {"wait_p99_s": 60.0}
"""Figures below this count as this much: a wait of 2 s is not twice as bad as one of 1 s."""


@dataclass
class Limits:
    """Holds the constraints and their multipliers.

    Attributes:
        most: how much worse a figure may be, as a part of the incumbent's.
        multipliers: by constraint; 0 at first.
    """

    most: Mapping[str, float] = field(default_factory=dict)
    multipliers: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.most:
            if name not in FIGURES:
                raise UnknownName("constraint", name, FIGURES)
        self.multipliers = {name: self.multipliers.get(name, 0.0) for name in self.most}

    def broken(self, run: RunTotals, other: RunTotals) -> Floats:
        """Return by how much each constraint is broken; below 0 = it holds."""
        return np.array([
            excess(run, other, name) - math.log1p(limit) for name, limit in self.most.items()
        ])  # fmt: skip

    def penalty(self, broken: Floats) -> Floats:
        """Return what to add to the objective, for rows of `broken`."""
        factors = np.array([self.multipliers[name] for name in self.most])
        return np.asarray(np.atleast_2d(broken) @ factors)

    def update(self, broken: Floats) -> None:
        """Move the multipliers by how far the constraints are broken on average."""
        for name, amount in zip(self.most, broken, strict=True):
            raised = self.multipliers[name] + RATE * float(amount)
            self.multipliers[name] = min(max(raised, 0.0), MOST)


def excess(run: RunTotals, other: RunTotals, name: str) -> float:
    """Return the logarithm of a constraint's figure over the other run's."""
    figure = FIGURES[name]
    least = LEAST.get(figure, 1e-9)
    one, two = (max(float(getattr(totals, figure)), least) for totals in (run, other))
    return math.log(one / two)


def parse_limits(texts: Sequence[str]) -> Limits:
    """Return the constraints of `name=part` texts, e.g. `fairness=0.1`.

    Raises:
        UnknownName: there is no such constraint.
        BadInput: the part is not a number of 0 or more.
    """
    most = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            most[name.strip()] = float(number)
        except ValueError:
            most[name.strip()] = -1.0
        if not 0 <= most[name.strip()] < 100:
            raise BadInput(f"--limit {text!r} is not understood", "use e.g. fairness=0.1 for 10 %")
    return Limits(most)
