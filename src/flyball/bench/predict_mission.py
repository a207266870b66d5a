"""The whole table of measured skill: load, utilisation, run time, demand, start time, cost.

A part is measured as a whole and handed to `save`, so that a run that was stopped goes on where it
was. Parts are measured side by side, each in a process of its own.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from flyball.bench import predict_jobs, predict_starts
from flyball.bench.predict_cost import COST, cost_rows
from flyball.bench.predict_load import measure
from flyball.bench.predict_targets import TARGETS, Note, Row
from flyball.bench.workers import Workers
from flyball.core.shared_data import shared_data

Table = dict[str, Any]


def _run_time_rows(note: Note) -> list[Row]:
    trace = shared_data("philly", "jobs.csv.gz")
    rows: list[Row] = predict_jobs.runtime(trace, predict_jobs.TEST_DAYS, note)["rows"]
    return rows


PARTS: dict[str, Callable[[Note], list[Row]]] = {
    "start time": predict_starts.rows,
    **{name: partial(measure, name, target) for name, target in TARGETS.items()},
    "run time": _run_time_rows,
    "demand": predict_jobs.demand_rows,
    COST: cost_rows,
}
"""Those that take longest come first."""


def run(
    table: Table,
    note: Note,
    save: Callable[[Table], None] = lambda _table: None,
    only: Sequence[str] = (),
    workers: int = 1,
) -> Table:
    """Measure what a table of an earlier run lacks.

    Args:
        table: what need not be measured again; `{}` = nothing.
        note: told what is being done.
        save: given the whole table so far after each part.
        only: names of parts; none = all.
        workers: parts measured at a time, each in a process of its own; 1 = here.

    Returns:
        `{"rows": [{"target", "horizon", "metric", "value", "bar", "baseline", "n", "holds"}],
        "parts": names of the parts that are whole}`. A bar is a number or [low, high]; without a
        bar both it and `holds` are None.
    """
    rows, done = list(table.get("rows", ())), list(table.get("parts", ()))
    left = [name for name in PARTS if name not in done and (not only or name in only)]
    for name, measured in _measured(left, note, workers):
        rows, done = [*rows, *measured], [*done, name]
        save({"rows": rows, "parts": done})
    return {"rows": rows, "parts": done}


def _measured(names: Sequence[str], note: Note, workers: int) -> Iterator[tuple[str, list[Row]]]:
    """The rows of each part, as they are ready."""
    if workers == 1 or len(names) < 2:
        yield from ((name, PARTS[name](note)) for name in names)
        return
    with multiprocessing.Manager() as manager:
        news = manager.Queue()
        telling = threading.Thread(target=_tell, args=(news, note), daemon=True)
        telling.start()
        with Workers(_Measuring(news), workers) as pool:
            for (name,), rows in pool.send([(name,) for name in names]):
                yield name, rows
        news.put(None)
        telling.join()


@dataclass(frozen=True)
class _Measuring:
    """In a worker: what is said there is told here."""

    news: Any

    def run(self, name: str) -> list[Row]:
        return PARTS[name](self.news.put)


def _tell(news: Any, note: Note) -> None:
    while (text := news.get()) is not None:
        note(text)
