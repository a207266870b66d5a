"""Bottom-up forecasts: a total is the sum of the forecasts of its parts.

Some parts of a total (clients of a service) follow the clock, others the last value, and the total
does not show which. Where a series has parts (`Series.parts`), the largest, and all others
together, are each forecast twice: by trees of the change, and by a linear model up to `NEAR_S`
ahead or by smoothing beyond, where a line fitted on few days errs. The two sums are averaged.
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
    """Forecasts series by their parts; a series without parts counts as one part."""

    def __init__(self) -> None:
        self.members: dict[str, list[str]] = {}
        self.lines, self.trees, self.smooth = Linear(), TreeChanges(), Smoothing()

    def fit(self, panel: Sequence[Series], leads: Sequence[int]) -> None:
        """Choose the largest parts by the known values, then fit them all together."""
        self.members = {series.name: _largest(series) for series in panel}
        split = [part for series in panel for part in self._split(series)]
        for inner in (self.lines, self.trees, self.smooth):
            inner.fit(split, leads)

    def outlook(self, series: Series, origins: Ints, lead: int) -> Outlook:
        if not set(self.members.get(series.name, ())) <= set(series.parts):
            return certain(series.filled[origins])  # its parts are no longer known
        near = lead * series.step_s <= NEAR_S
        points = np.zeros(len(origins))
        for part in self._split(series):
            first = (self.lines if near else self.smooth).outlook(part, origins, lead).median
            points = points + 0.5 * (first + self.trees.outlook(part, origins, lead).median)
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
        forecaster = cls()
        forecaster.members = {name: list(members) for name, members in saved["members"].items()}
        forecaster.lines = Linear.load(saved["lines"])
        forecaster.trees = TreeChanges.load(saved["trees"])
        forecaster.smooth = Smoothing.load(saved["smooth"])
        return forecaster

    def _split(self, series: Series) -> list[Series]:
        """Return the parts in use, and the rest."""
        members = self.members.get(series.name, [])
        used = {member: series.parts[member] for member in members}
        rest: Floats = series.values - sum(used.values(), np.zeros(len(series)))
        if used and np.nanmin(series.values, initial=0.0) >= 0:
            rest = np.maximum(rest, 0.0)  # rounding may leave a small negative rest
        return [
            replace(series, name=f"{series.name}/{name}", values=values, also={}, parts={})
            for name, values in {**used, REST: rest}.items()
        ]


def _largest(series: Series) -> list[str]:
    sizes = {name: float(np.nansum(np.abs(values))) for name, values in series.parts.items()}
    return sorted(sizes, key=lambda name: -sizes[name])[:MOST_PARTS]
