"""`flyball bench tune`: what tuning is worth, part by part, each figure with its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile

Row = dict[str, Any]
Note = Callable[[str], None]

SIA = ("sia_pollux", "workloads.csv.gz")
PARTS = {
    "mixed": "elastic sizes, types, caps and sleep on T4, 2080 Ti and A100 (about 10 minutes)",
    "sharing": "two jobs on a device, by Gavel's measured pairs",
    "caps": "power caps on configurations they were not chosen on",
    "replicas": "replicas of a service on ServeGen's second week",
    "pathways": "each class of jobs on its own pathway",
    "speed": "the twin with every effect on, and the time of a round at 1,000 nodes",
    "live": "a real elastic job on this machine",
    "live-caps": "a real job under caps on this machine",
}
"""Every part with its summary."""
SOURCES = {
    **{name: f"flyball.experiments.tuning.{name}" for name in list(PARTS)[:5]},
    **{name: f"flyball.bench.tune.{name.replace('-', '_')}" for name in list(PARTS)[5:]},
}
"""The module of each part; its `rows(progress)` measures it."""
MODULES = {"live": ("torch", "safetensors")}
DATA: dict[str, tuple[tuple[str, ...], ...]] = {
    "mixed": (SIA,),
    "caps": (("zeus", "power_vs_limit.csv.gz"),),
    "replicas": (("servegen_2025", "total_rate_10min.csv.gz"),),
}
PIECEWISE = ("mixed",)
"""Parts whose `rows` keep each run in the file by themselves."""

LOWER_IS_BETTER = (
    *("energy_per_work", "completion", "device-hours", "round_ms"),
    *("steps", "loss away", "processor time less the cap", "most above the cap"),
)
"""Metrics whose bar is the most they may be: those that begin so."""


def parts(runs: RunFile) -> dict[str, BenchPart]:
    """Every part, with what it needs."""
    return {
        name: BenchPart(_Rows(name, runs), about, MODULES.get(name, ()), DATA.get(name, ()))
        for name, about in PARTS.items()
    }


class _Rows:
    """Measures a part; its module is loaded only then."""

    def __init__(self, name: str, runs: RunFile) -> None:
        self._name, self._runs = name, runs

    def __call__(self, note: Note) -> list[Row]:
        module = import_module(SOURCES[self._name])
        more = {"runs": self._runs} if self._name in PIECEWISE else {}
        rows: list[Row] = module.rows(note, **more)
        return rows


def run(
    progress: Note, only: Sequence[str], runs: RunFile, done: Note = lambda _part: None
) -> Outcome:
    """The rows of the parts named, or of all.

    Raises:
        UnknownName: no such part.
        DataAbsent: no part can run here.
    """
    return run_parts(parts(runs), only, progress, runs, done=done)


def holds(row: Row) -> bool | None:
    """Whether a row reaches its bar; None if it has none."""
    if row["bar"] is None:
        return None
    if str(row["metric"]).startswith(LOWER_IS_BETTER):
        return bool(row["value"] <= row["bar"])
    return bool(row["value"] >= row["bar"])
