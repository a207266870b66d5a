"""Bottom-up: a total is forecast as the sum of the forecasts of its parts.

Some parts of a total (clients of a service) follow the clock, others the last value, and the total
hides which is which. Where a series knows its parts (`Series.parts`), the largest, and all others
together, are each forecast twice: by trees of the change, and by a line up to `NEAR_S` ahead or by
smoothing beyond, where a line of few days errs. The sums of the two are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from flyball.core.results import Floats, Ints
from flyball.predict.load.contract import NEAR_S, Outlook, certain
from flyball.predict.load.linear import Linear
from flyball.predict.load.smoothing import Smoothing
from flyball.predict.load.trees import TreeChanges
from flyball.predict.series import Series

MOST_PARTS = 12
REST = "rest"


class Parts:
    """A series without parts is its own only part."""

    def __init__(self) -> None:
        self.members: dict[str, list[str]] = {}
        self.lines, self.trees, self.smooth = Linear(), TreeChanges(), Smoothing()

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Choose the largest parts by what is known, then learn them all together."""
        self.members = {each.name: _largest(each) for each in panel}
        split = [part for each in panel for part in self._split(each)]
        for inner in (self.lines, self.trees, self.smooth):
            inner.fit(split, leads)

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        if not set(self.members.get(series.name, ())) <= set(series.parts):
            return certain(series.filled[origins])  # its parts are no longer told
        near = lead * series.step_s <= NEAR_S
        points = np.zeros(len(origins))
        for part in self._split(series):
            said = (self.lines if near else self.smooth).outlook(part, origins, lead).median
            points = points + 0.5 * (said + self.trees.outlook(part, origins, lead).median)
        if np.nanmin(series.values[: origins.min(initial=0) + 1], initial=0.0) >= 0:
            points = np.maximum(points, 0.0)
        return certain(points)

    def save(self) -> Mapping[str, Any]:
        return {
            "members": self.members,
            "lines": self.lines.save(),
            "trees": self.trees.save(),
            "smooth": self.smooth.save(),
        }

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> Self:
        made = cls()
        made.members = {name: list(each) for name, each in saved["members"].items()}
        made.lines = Linear.load(saved["lines"])
        made.trees = TreeChanges.load(saved["trees"])
        made.smooth = Smoothing.load(saved["smooth"])
        return made

    def _split(self, series: Series) -> list[Series]:
        """The parts in use, and the rest."""
        members = self.members.get(series.name, [])
        known = {each: series.parts[each] for each in members}
        rest: Floats = series.values - sum(known.values(), np.zeros(len(series)))
        if known and np.nanmin(series.values, initial=0.0) >= 0:
            rest = np.maximum(rest, 0.0)  # sums of rounded numbers
        return [
            replace(series, name=f"{series.name}/{name}", values=values, also={}, parts={})
            for name, values in {**known, REST: rest}.items()
        ]


def _largest(series: Series) -> list[str]:
    sizes = {name: float(np.nansum(np.abs(each))) for name, each in series.parts.items()}
    return sorted(sizes, key=lambda name: -sizes[name])[:MOST_PARTS]
