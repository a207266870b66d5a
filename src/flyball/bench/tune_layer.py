"""`flyball bench tune`: what tuning is worth, part by part, each figure with its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from flyball.core.errors import UnknownName

Row = dict[str, Any]

PARTS = {
    "mixed": "elastic sizes, types, caps and sleep on T4, 2080 Ti and A100 (about 10 minutes)",
    "sharing": "two jobs on a device, by Gavel's measured pairs",
    "caps": "power caps on configurations they were not chosen on",
    "replicas": "replicas of a service on ServeGen's second week",
    "pathways": "each class of jobs on its own pathway",
    "speed": "the twin with every effect on, and the time of a round at 1,000 nodes",
    "live": "a real elastic job and a real cap on this machine",
}
"""What there is; each is `rows(progress)` of a module `tune_<name>`."""

LOWER_IS_BETTER = (
    *("energy_per_work", "completion", "device-hours", "round_ms"),
    *("steps", "loss away", "processor time less the cap", "most above the cap"),
)
"""Metrics whose bar is the most they may be: those that begin so."""


def run(progress: Callable[[str], None], only: Sequence[str] = ()) -> list[Row]:
    """The rows of the parts named, or of all.

    Raises:
        UnknownName: no such part.
        DataAbsent: a part needs data that are not there.
    """
    for name in only:
        if name not in PARTS:
            raise UnknownName("part", name, PARTS)
    found: list[Row] = []
    for name in only or PARTS:
        progress(f"{name}: {PARTS[name]}")
        module = import_module(f"flyball.bench.tune_{name}")
        found += module.rows(progress)
    return found


def holds(row: Row) -> bool | None:
    """Whether a row reaches its bar; None if it has none."""
    if row["bar"] is None:
        return None
    if str(row["metric"]).startswith(LOWER_IS_BETTER):
        return bool(row["value"] <= row["bar"])
    return bool(row["value"] >= row["bar"])
