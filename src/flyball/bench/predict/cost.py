"""Cost of prediction: CPU time of a cluster's series once a minute, its growth, and of fits."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from flyball.bench.predict.targets import AHEAD_S, VENUS, Note, Row, row_of, venus_jobs
from flyball.core.units import S_PER_MIN
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile
from flyball.predict.load.fleet import Fleet
from flyball.predict.load.registry import NETS, get_forecaster, names

COST = "cost of load forecasts"
CLUSTER = 4_000
"""Number of series of 1,000 nodes: device use, memory, power and jobs of each."""
FLEETS = (100, 1_000, CLUSTER, 10_000)
STEPS = 8
MOST_FIT_S = 60.0
MOST_PERCENT = 5.0
TREES = ("trees", "tree-changes")


def cost_rows(note: Note, sizes: Sequence[int] = FLEETS) -> list[Row]:
    """Measure all rows, in CPU time of this process, which other load hardly changes."""
    return [*series_rows(note, sizes), *fit_rows(note)]


def series_rows(note: Note, sizes: Sequence[int] = FLEETS) -> list[Row]:
    """Measure a step of many series, and how its time grows."""
    return _labelled(_fleet_rows(note, sizes))


def fit_rows(note: Note) -> list[Row]:
    """Measure fitting the slow models."""
    return _labelled(_fit_rows(note))


PARTS = {
    "series": BenchPart(series_rows, "a step of many series"),
    "fits": BenchPart(fit_rows, "fitting trees and nets", data=VENUS),
}
"""The parts of `flyball bench predict`."""


def run(
    note: Note, runs: RunFile, only: Sequence[str] = (), done: Note = lambda _part: None
) -> Outcome:
    """Measure the parts that are not in the file."""
    return run_parts(PARTS, only, note, runs, done=done)


def _labelled(rows: list[Row]) -> list[Row]:
    return [{"target": COST, "horizon": "", **row} for row in rows]


def _fleet_rows(note: Note, sizes: Sequence[int]) -> list[Row]:
    seconds = {}
    for count in sizes:
        note(f"{COST}: {count:,} series")
        seconds[count] = step_s(count)
    least, most = min(sizes), max(sizes)
    percent = 100.0 * seconds[CLUSTER] / S_PER_MIN
    rows = [
        row_of(f"% of a core, {CLUSTER:,} series once a minute", percent, MOST_PERCENT, "", CLUSTER)
    ]
    for count in sorted(sizes):
        text = f"CPU ms a step, {count:,} series"
        rows.append(row_of(text, 1_000.0 * seconds[count], None, "", count))
    allowed = most * math.log(most) / (least * math.log(least))
    grown = seconds[most] / seconds[least]
    text = f"time of {most:,} series / of {least:,}"
    return [*rows, row_of(text, grown, allowed, "n log n", most)]


def step_s(count: int, steps: int = STEPS) -> float:
    """Return the CPU seconds of one step of `count` series that learn from outcomes."""
    rng = np.random.default_rng(1)
    fleet = Fleet(count, S_PER_MIN, 1)
    for _ in range(3):
        fleet.observe(rng.random(count))
    # Few series take more steps, else the result would be a clock tick.
    steps *= max(1, 1_000 // count)
    began = time.process_time()
    for _ in range(steps):
        fleet.observe(rng.random(count))
    return (time.process_time() - began) / steps


def _fit_rows(note: Note) -> list[Row]:
    """Measure fits on the longest series of the table at all its horizons."""
    series = venus_jobs()[0]
    leads = [series.steps(ahead_s) for ahead_s in AHEAD_S]
    note(f"{COST}: fitting trees")
    fitted = sum(_fit_s(name, leads) for name in TREES)
    text = "CPU s to fit all trees of a series"
    rows = [row_of(text, fitted, MOST_FIT_S, "", len(series))]
    for name in [name for name in names() if name in NETS]:
        note(f"{COST}: fitting {name}")
        spent = _fit_s(name, leads)
        rows.append(row_of(f"CPU s to fit {name}", spent, None, "optional", len(series)))
    return rows


def _fit_s(name: str, leads: Sequence[int]) -> float:
    forecaster, panel = get_forecaster(name)(), venus_jobs()
    began = time.process_time()
    forecaster.fit(panel, leads)
    return time.process_time() - began
