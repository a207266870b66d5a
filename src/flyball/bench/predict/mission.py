"""The full table of measured skill: load, utilisation, run time, demand, start time, cost.

Parts are measured in parallel, each in its own process, and kept when they are complete.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flyball.bench.predict import jobs, starts
from flyball.bench.predict.cost import COST, cost_rows
from flyball.bench.predict.load import measure
from flyball.bench.predict.targets import TARGETS, VENUS, Note, Row
from flyball.core.errors import FlyballError
from flyball.core.shared_data import shared_data
from flyball.experiments.part_runs import BenchPart, Outcome, attempted, reason_of, run_parts
from flyball.experiments.run_file import RunFile
from flyball.experiments.workers import Workers


def _run_time_rows(note: Note) -> list[Row]:
    trace = shared_data("philly", "jobs.csv.gz")
    rows: list[Row] = jobs.runtime(trace, jobs.TEST_DAYS, note)["rows"]
    return rows


PHILLY = ("philly", "jobs.csv.gz")
PARTS: dict[str, BenchPart] = {
    "start time": BenchPart(starts.rows),
    **{
        name: BenchPart(partial(measure, name, target), modules=target.modules, data=target.data)
        for name, target in TARGETS.items()
    },
    "run time": BenchPart(_run_time_rows, data=(PHILLY,)),
    "demand": BenchPart(jobs.demand_rows),
    COST: BenchPart(cost_rows, data=VENUS),
}
"""Every part; those that take longest come first."""


def run(
    note: Note,
    runs: RunFile,
    only: Sequence[str] = (),
    workers: int = 1,
    done: Note = lambda _part: None,
) -> Outcome:
    """Measure the parts that are not in the file.

    Args:
        note: receives what is being done.
        runs: keeps each part as soon as it is complete.
        only: names of parts; none = all.
        workers: parts measured at a time, each in its own process; 1 = in this one.
        done: receives the name of each part that is over.

    Returns:
        Rows `{"target", "horizon", "metric", "value", "bar", "baseline", "n", "holds"}` by part. A
        bar is a number or [low, high]; without a bar both it and `holds` are None.
    """
    parallel = partial(_in_parallel, note=note, workers=workers) if workers > 1 else None
    return run_parts(PARTS, only, note, runs, measure=parallel, done=done)


def _in_parallel(names: Sequence[str], note: Note, workers: int) -> Iterator[tuple[str, Any]]:
    """Yield the rows of each part as they are ready, or the exception of one that failed."""
    if len(names) < 2:
        yield from ((name, attempted(PARTS[name].run, note)) for name in names)
        return
    with multiprocessing.Manager() as manager:
        notes = manager.Queue()
        forwarding = threading.Thread(target=_forward, args=(notes, note), daemon=True)
        forwarding.start()
        with Workers(_Measuring(notes), workers) as pool:
            for (name,), (rows, failure) in pool.send([(name,) for name in names]):
                yield name, rows if failure is None else FlyballError(failure)
        notes.put(None)
        forwarding.join()


@dataclass(frozen=True)
class _Measuring:
    """Runs parts in a worker: notes go to the parent, and a failure comes back as a sentence."""

    notes: Any

    def run(self, name: str) -> tuple[list[Row], str | None]:
        result = attempted(PARTS[name].run, self.notes.put)
        if isinstance(result, Exception):
            return [], reason_of(result)
        return result, None


def _forward(notes: Any, note: Note) -> None:
    while (text := notes.get()) is not None:
        note(text)
