"""`flyball bench forecasts`: what forecasts are worth to the rules that read them, part by part."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from flyball.experiments.forecasts.rows import Note, Row
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile


class ForecastPart(NamedTuple):
    """One part of the benchmark.

    Attributes:
        about: what is measured, for people.
        module: of `flyball.experiments.forecasts`; its `rows(note, seeds)` measures the part, with
            as many seeds as it has by default if `seeds` is None.
        data: files of the shared data that it needs.
    """

    about: str
    module: str
    data: tuple[tuple[str, ...], ...] = ()


PARTS = {
    "load": ForecastPart(
        "the load forecast on daily load: sleep and wake ahead, elastic sizes (minutes)",
        "daily_load",
    ),
    "services": ForecastPart(
        "forecasts of requests: replicas on ServeGen's second week",
        "services",
        data=(("servegen_2025", "total_rate_10min.csv.gz"),),
    ),
    "run-times": ForecastPart(
        "quantiles of run times in backfill and order, with poor estimates", "run_times"
    ),
}
"""Every part, in the order in which they run."""


class _Rows:
    """Measures a part; loads its module only then."""

    def __init__(self, part: ForecastPart, seeds: int | None) -> None:
        self._part, self._seeds = part, seeds

    def __call__(self, note: Note) -> list[Row]:
        module = import_module(f"flyball.experiments.forecasts.{self._part.module}")
        rows: list[Row] = module.rows(note, self._seeds)
        return rows


def run(
    note: Note,
    only: Sequence[str],
    seeds: int | None,
    runs: RunFile,
    done: Note = lambda _part: None,
) -> Outcome:
    """Measure the parts named, or all.

    Raises:
        UnknownName: no such part.
        DataAbsent: no part can run here.
    """
    parts = {
        name: BenchPart(_Rows(part, seeds), part.about, data=part.data)
        for name, part in PARTS.items()
    }
    return run_parts(parts, only, note, runs, {"seeds": seeds}, done=done)
