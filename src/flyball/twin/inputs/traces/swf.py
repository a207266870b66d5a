"""The Standard Workload Format, version 2.2 (D. Feitelson's Parallel Workloads Archive): reading.

A line has 18 numbers; lines that begin with `;` are comments. -1 means "not known".
What each field becomes, and which are ignored, is in `docs/reference/traces.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput, at
from flyball.core.units import MIB_PER_GIB, US_PER_S
from flyball.core.workload import Workload
from flyball.twin.inputs.traces.files import opened
from flyball.twin.inputs.traces.job_rows import recorded_us
from flyball.twin.inputs.traces.links import check_ids, refuse_cycle
from flyball.twin.inputs.traces.table import (
    CHUNK_ROWS,
    MAX_DEVICES,
    MAX_ROWS,
    MAX_TIME_S,
    Field,
    Table,
    numbers,
    too_many,
)

WIDTH = 18
_ID_MAX = 2.0**53
SWF_FIELDS: dict[int, Field] = {
    0: Field("job number", "whole", required=True, high=_ID_MAX),
    1: Field("submit time", required=True, remedy="seconds, 0 to 1e11"),
    2: Field("wait time", required=True, low=-MAX_TIME_S, remedy="seconds, or -1 if not known"),
    3: Field("run time", required=True, low=-1, remedy="seconds, or -1 if not known"),
    4: Field("allocated processors", "whole", required=True, low=-1, high=MAX_DEVICES),
    7: Field("requested processors", "whole", required=True, low=-1, high=MAX_DEVICES),
    8: Field("requested time", required=True, low=-1, remedy="seconds, or -1 if not known"),
    9: Field("requested memory", required=True, low=-1, high=1e12),
    10: Field("status", "whole", required=True, low=-1, high=5),
    11: Field("user", "whole", required=True, low=-1, high=_ID_MAX),
    12: Field("group", "whole", required=True, low=-1, high=_ID_MAX),
    16: Field("preceding job", "whole", required=True, low=-1, high=_ID_MAX),
}
OUTCOME_OF = {1: Outcome.COMPLETED, -1: Outcome.COMPLETED, 0: Outcome.FAILED, 5: Outcome.CANCELLED}
PARTIAL = (2, 3, 4)  # parts of a job that also has a line of its own
_CLAIM = re.compile(r";\s*Max(?:Jobs|Records)\s*:\s*(\d+)", re.IGNORECASE)
KIB_PER_MIB = MIB_PER_GIB

Columns = dict[str, npt.NDArray[np.float64]]


def read(path: Path, notes: list[str]) -> Workload:
    """Read an SWF file; lines that are not a job that ran are skipped and counted in `notes`."""
    table = _table(path)
    table.columns["job number"] = table.columns["job number"].astype(np.int64).astype(np.str_)
    partial = np.isin(table.columns["status"], PARTIAL)
    ran = (table.columns["run time"] >= 0) & (_processors(table.columns) > 0)
    _note(notes, path, int(partial.sum()), "parts of a job (status 2, 3, 4)")
    _note(notes, path, int((~ran & ~partial).sum()), "never ran (run time or processors unknown)")
    all_ids = set(table.columns["job number"].tolist())
    kept = table.where(ran & ~partial)
    if not len(kept):
        raise BadInput(f"{path} has no job that ran", "a job needs a run time and processors")
    check_ids(kept, "job number")
    return _workload(kept, all_ids, notes)


def _table(path: Path) -> Table:
    parts: dict[int, list[npt.NDArray[np.float64]]] = {place: [] for place in SWF_FIELDS}
    rows: list[npt.NDArray[np.int64]] = []
    with opened(path) as lines:
        for row_numbers, chunk in _chunks(path, lines):
            columns = list(zip(*chunk, strict=True))
            for place, column in SWF_FIELDS.items():
                parts[place].append(numbers(path, column, columns[place], row_numbers))
            rows.append(np.array(row_numbers))
    if not rows:
        raise BadInput(f"{path} has no jobs", f"an SWF line has {WIDTH} numbers")
    return Table(
        path,
        {column.name: np.concatenate(parts[place]) for place, column in SWF_FIELDS.items()},
        {},
        np.concatenate(rows),
    )


def _chunks(path: Path, lines: Iterator[str]) -> Iterator[tuple[list[int], list[list[str]]]]:
    """Yield job lines as words, with their line numbers, a chunk at a time."""
    line_number, jobs = 0, 0
    while chunk := list(islice(lines, CHUNK_ROWS)):
        row_numbers, rows = [], []
        for line in chunk:
            line_number += 1
            if line.lstrip().startswith(";"):
                _check_claim(path, line)
            elif words := line.split():
                if len(words) != WIDTH:
                    raise BadInput(
                        f"{at(path, line_number)}: {len(words)} fields, SWF has {WIDTH}",
                        "check for a cut line",
                    )
                rows.append(words)
                row_numbers.append(line_number)
        jobs += len(rows)
        if jobs > MAX_ROWS:
            raise too_many(path, jobs)
        if rows:
            yield row_numbers, rows


def _check_claim(path: Path, comment: str) -> None:
    claim = _CLAIM.match(comment.strip())
    claimed = int(claim[1][:18]) if claim else 0
    if claimed > MAX_ROWS:
        raise too_many(path, claimed)


def _processors(columns: Columns) -> npt.NDArray[np.float64]:
    allocated = columns["allocated processors"]
    return np.where(allocated > 0, allocated, columns["requested processors"])


def _note(notes: list[str], path: Path, count: int, what: str) -> None:
    if count:
        notes.append(f"{path.name}: {count} lines skipped: {what}")


def _workload(table: Table, all_ids: set[str], notes: list[str]) -> Workload:
    got = table.columns
    users, user_names = _coded(got["user"])
    groups, group_names = _coded(got["group"])
    ids = got["job number"]
    after_job, after_on = _waits(table, all_ids, notes)
    start_s = np.where(got["wait time"] >= 0, got["submit time"] + got["wait time"], np.nan)
    requested_us = np.rint(got["requested time"] * US_PER_S)
    return Workload.of(
        table.file.name,
        got["submit time"],
        got["run time"],
        _processors(got).astype(np.int64),
        ids=ids,
        duration_us=np.rint(got["run time"] * US_PER_S),
        estimate_us=np.where(got["requested time"] > 0, requested_us, np.nan),
        memory_mib=np.ceil(np.maximum(got["requested memory"], 0) / KIB_PER_MIB).astype(np.int64),
        outcome=[int(OUTCOME_OF[int(code)]) for code in got["status"].tolist()],
        user=users,
        users=user_names,
        tenant=groups,
        tenants=group_names,
        after_job=after_job,
        after_on=after_on,
        row=table.rows,
        start_us=recorded_us(start_s),
        end_us=recorded_us(start_s + got["run time"]),
    )


def _coded(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Return numbers of users or groups as codes and names; -1 stays "not stated"."""
    distinct, codes = np.unique(values, return_inverse=True)
    unknown = int(distinct[0] < 0) if len(distinct) else 0
    names = tuple(str(int(number)) for number in distinct[unknown:])
    return codes.astype(np.int64) - unknown, names


def _waits(
    table: Table, all_ids: set[str], notes: list[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    ids = table.columns["job number"]
    index = {job: i for i, job in enumerate(ids.tolist())}
    jobs, waits_on, dropped = [], [], 0
    preceding = table.columns["preceding job"]
    for i in np.flatnonzero(preceding > 0).tolist():
        other = str(int(preceding[i]))
        if other in index:
            jobs.append(i)
            waits_on.append(index[other])
        elif other in all_ids:
            dropped += 1
        else:
            why = "is not a job number of this file"
            raise table.fault(i, "preceding job", other, why, "name a job of this file, or -1")
    if dropped:
        notes.append(f"{table.file.name}: {dropped} waits on skipped lines dropped")
    pairs = np.array(jobs, np.int64), np.array(waits_on, np.int64)
    refuse_cycle(table.file, ids, *pairs)
    return pairs
