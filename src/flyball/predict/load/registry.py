"""The registry of load forecasters: one line each, loaded on demand.

A forecaster is a class in a module of this package (`contract.py` has the protocol). Other packages
add theirs under the entry-point group `flyball.forecasters` (name -> `module:Class`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import cast

from flyball.core.errors import Unavailable, UnknownName
from flyball.core.plugins import load, loadable, outside
from flyball.predict.load.contract import LoadForecaster
from flyball.predict.series import Series

GROUP = "flyball.forecasters"
BUILT_IN = {
    "last": "flyball.predict.load.naive:Last",
    "yesterday": "flyball.predict.load.naive:Yesterday",
    "last-week": "flyball.predict.load.naive:LastWeek",
    "same-time": "flyball.predict.load.same_time:SameTime",
    "smoothing": "flyball.predict.load.smoothing:Smoothing",
    "linear": "flyball.predict.load.linear:Linear",
    "trees": "flyball.predict.load.trees:Trees",
    "tree-changes": "flyball.predict.load.trees:TreeChanges",
    "parts": "flyball.predict.load.parts:Parts",
    "lstm": "flyball.predict.load.lstm:Lstm",
    "transformer": "flyball.predict.load.transformer:Transformer",
}
NETS = ("lstm", "transformer")
"""Names of forecasters that need torch; without torch they are not offered."""
NAIVE = ("last", "yesterday", "last-week")
PARTS = "parts"
COSTS = {
    "smoothing": (0.05, 4e-6, 150_000),
    "linear": (0.02, 2e-5, 100_000),
    "trees": (0.2, 6e-5, 40_000),
    "tree-changes": (0.2, 6e-5, 40_000),
    "parts": (1.0, 4e-4, 40_000),
    "lstm": (15.0, 0.0, 1),
    "transformer": (25.0, 0.0, 1),
}
"""Cost of a fit: CPU seconds, CPU seconds per point and lead, maximum of points (one Xeon core)."""


def names() -> list[str]:
    """Return every forecaster that runs here, the built-in ones first, in the registry's order."""
    built_in = [name for name in BUILT_IN if name not in NETS or has_torch()]
    return [*built_in, *sorted(set(_outside()) - set(BUILT_IN))]


def candidates(
    panel: Sequence[Series], leads: int = 4, budget_s: float = math.inf, fits: int = 1
) -> list[str]:
    """Return the forecasters that suit the panel and can be fitted within the budget.

    Args:
        leads: number of leads that will be fitted.
        budget_s: CPU seconds of one thread for all fits; the naive ones cost nothing.
        fits: number of fits of each.
    """
    points = sum(len(series) for series in panel)
    no_parts = not any(series.parts for series in panel)
    chosen, left = [], budget_s
    broken = _broken()
    for name in names():
        if name in broken:
            continue
        cost_s = fits * _cost_s(name, points, leads)
        if cost_s <= left and not (name == PARTS and no_parts):
            chosen.append(name)
            left -= cost_s
    return chosen


def _broken() -> set[str]:
    """Return the names of other packages' forecasters that do not load; each is warned of."""
    added = [name for name in names() if name not in BUILT_IN]
    return set(added) - set(loadable(added, get_forecaster))


def _cost_s(name: str, points: int, leads: int) -> float:
    """Return the rough CPU time of a fit: a fixed part, and a part per point and lead."""
    fixed_s, per_point_s, most_points = COSTS.get(name, (0.0, 0.0, 1))
    return fixed_s + per_point_s * min(points, most_points) * leads


def has_torch() -> bool:
    """Return whether nets can run, without importing torch, which takes seconds."""
    return all(find_spec(package) is not None for package in ("torch", "safetensors"))


def get_forecaster(name: str) -> type[LoadForecaster]:
    """Return the forecaster's class.

    Raises:
        UnknownName: there is no forecaster of this name.
        Unavailable: it is a net, and torch is not installed.
    """
    if name in NETS and not has_torch():
        raise Unavailable(f"forecaster {name!r} needs torch", "pip install flyball[learn]")
    where = BUILT_IN.get(name) or _outside().get(name)
    if where is None:
        raise UnknownName("forecaster", name, names())
    return cast(type[LoadForecaster], load("forecaster", name, where, GROUP, _wrong))


def _wrong(value: object) -> str:
    return "" if hasattr(value, "outlook") else "is not a forecaster: it has no outlook"


def _outside() -> dict[str, str]:
    return outside(GROUP)
