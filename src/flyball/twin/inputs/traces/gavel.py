"""Gavel's traces: jobs that train for a number of steps. See `docs/reference/traces.md`.

The run time is the number of steps over the speed Gavel measured on V100s. Two forms are
read: Gavel's own, tab-separated lines without a header, and a CSV table of the same jobs.

Shockwave's lines name a `mode`. Jobs of the modes `gns` and `accordion` grow their batch as they
train, and the trace does not state how far and when: they are refused unless the caller asks to
read them as if they kept their batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import US_PER_S
from flyball.core.workload import Workload
from flyball.physics import measured
from flyball.physics.catalogue import REFERENCE
from flyball.physics.measured import ANCHOR, ModelKey
from flyball.twin.inputs.traces.files import opened
from flyball.twin.inputs.traces.links import check_ids
from flyball.twin.inputs.traces.table import (
    CHUNK_ROWS,
    MAX_DEVICES,
    MAX_ROWS,
    Field,
    Table,
    fault,
    numbers,
    read_table,
    too_many,
)

JOB_TYPE = Field("job_type", "name", required=True)
SCALE = Field(
    "scale_factor",
    "whole",
    required=True,
    low=1,
    high=MAX_DEVICES,
    remedy="the number of GPUs, 1 or more",
)
STEPS = Field("total_steps", required=True, high=1e15, remedy="the number of steps, 0 or more")
SUBMIT = Field("submit_s", required=True, remedy="seconds from any fixed start, 0 to 1e11")
CSV_FIELDS = (Field("job", "text"), JOB_TYPE, SCALE, STEPS, SUBMIT)

WIDTHS = (9, 10, 11, 12)
"""Valid numbers of fields: Gavel's older and newer form, Shockwave's with `mode` and `duration`."""

MODE, WITH_MODE = 7, (11, 12)
"""Index of the mode in Shockwave's lines, and their numbers of fields."""
STATIC, GROWING = "static", ("accordion", "gns")

OLDER = 9  # has no working directory, so the fields after it are one place earlier

Lines = list[tuple[int, list[str]]]


def read(path: Path, notes: list[str], static_batch: bool = False) -> Workload:
    """Read either form; where the jobs have no ids they are named j0, j1, ...

    Args:
        path: the file.
        notes: receives a sentence on what was read differently from the recording.
        static_batch: read jobs that grow their batch as if they kept it.

    Raises:
        BadInput: the file is not valid, or has jobs that grow their batch.
    """
    with opened(path) as lines:
        first = next((line for line in lines if line.strip()), "")
    if "\t" in first:
        growing: dict[int, str] = {}
        table = _tabbed(path, growing)
        _judge_growth(table, growing, static_batch, notes)
    else:
        table = read_table(path, CSV_FIELDS)
    columns: dict[str, Any] = {}
    if "job" in table.columns:
        check_ids(table, "job")
        columns["ids"] = table.columns["job"]
    got = table.columns
    return Workload.of(
        path.name,
        got["submit_s"],
        0.0,
        got["scale_factor"].astype(np.int64),
        duration_us=np.rint(got["total_steps"] / _steps_per_s(table) * US_PER_S),
        model=got["job_type"],
        models=table.names["job_type"],
        device=0,
        device_names=(REFERENCE,),
        row=table.rows,
        **columns,
    )


def _steps_per_s(table: Table) -> npt.NDArray[np.float64]:
    """Return the measured speed of each job on V100s; raise where it was not measured."""
    speeds: dict[tuple[int, int], float] = {}
    kinds = list(
        zip(table.columns["job_type"].tolist(), table.columns["scale_factor"].tolist(), strict=True)
    )
    for i, (code, devices) in enumerate(kinds):
        if (code, devices) not in speeds:
            speeds[code, devices] = _measured(table, i, table.names["job_type"][code], int(devices))
    return np.array([speeds[kind] for kind in kinds])


def _measured(table: Table, index: int, job_type: str, devices: int) -> float:
    key = measured.model_key(job_type)
    if key is None:
        where = at(table.file, int(table.rows[index]))
        raise UnknownName(
            f"job type in {where}", job_type, (model.text for model in measured.models())
        )
    speed = measured.steps_per_s(ANCHOR, key, devices)
    if not speed:
        why = f"but Gavel did not measure {job_type} on {devices} {REFERENCE}"
        raise table.fault(index, "scale_factor", devices, why, f"it did on {_counts(key)}")
    return speed


def _counts(key: ModelKey) -> str:
    counts = [count for count in range(1, 65) if measured.steps_per_s(ANCHOR, key, count)]
    return ", ".join(map(str, counts))


def _judge_growth(
    table: Table, growing: dict[int, str], static_batch: bool, notes: list[str]
) -> None:
    """Refuse jobs that grow their batch (row: mode), or note that they are read as static."""
    if not growing:
        return
    by_mode = ", ".join(
        f"{count:,} {mode}" for mode, count in sorted(Counter(growing.values()).items())
    )
    what = f"{len(growing):,} of {len(table):,} jobs change their batch size as they train"
    if not static_batch:
        raise BadInput(
            f"{table.file}: {what} ({by_mode}; the first in row {min(growing)}), and the trace "
            "does not say how",
            "read them as if they kept it with --static-batch (replay, explain, trace describe and "
            "convert take it), or leave those lines out",
        )
    notes.append(
        f"{table.file.name}: {what} ({by_mode}): read as if they kept it, so their run times are "
        "not those of the recorded training"
    )


def _modes(path: Path, chunk: Lines) -> dict[int, str]:
    """Return the rows of a chunk whose jobs grow their batch, with their modes."""
    if len(chunk[0][1]) not in WITH_MODE:
        return {}
    modes = {row: words[MODE].strip() for row, words in chunk}
    for row, mode in modes.items():
        if mode not in (STATIC, *GROWING):
            allowed = ", ".join((STATIC, *GROWING))
            raise fault(path, row, "mode", mode, "is not known", f"use one of {allowed}")
    return {row: mode for row, mode in modes.items() if mode != STATIC}


def _tabbed(path: Path, growing: dict[int, str]) -> Table:
    """Read a file in Gavel's tab-separated form; `growing` receives jobs that grow their batch."""
    codes: dict[str, int] = {}
    parts: dict[str, list[npt.NDArray[Any]]] = {}
    rows: list[int] = []
    with opened(path) as lines:
        for chunk in _chunks(path, lines):
            numbered = [row for row, _ in chunk]
            growing |= _modes(path, chunk)
            steps = 4 if len(chunk[0][1]) == OLDER else 5
            for field, index in ((STEPS, steps), (SCALE, steps + 1), (SUBMIT, -1)):
                texts = [words[index].strip() for _, words in chunk]
                parts.setdefault(field.name, []).append(numbers(path, field, texts, numbered))
            names = [words[0].strip() for _, words in chunk]
            coded = np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)
            parts.setdefault(JOB_TYPE.name, []).append(coded)
            rows += numbered
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    return Table(path, columns, {JOB_TYPE.name: tuple(codes)}, np.array(rows, np.int64))


def _chunks(path: Path, lines: Iterator[str]) -> Iterator[Lines]:
    """Yield lines as fields with their numbers, a chunk at a time; all must have one width."""
    numbered = enumerate(lines, 1)
    width = 0
    while chunk := list(islice(numbered, CHUNK_ROWS)):
        if chunk[-1][0] > MAX_ROWS:
            raise too_many(path, chunk[-1][0])
        split = [(row, line.split("\t")) for row, line in chunk if line.strip()]
        for row, words in split:
            width = width or len(words)
            if len(words) != width or width not in WIDTHS:
                expected = width if width in WIDTHS else "9 to 12"
                raise BadInput(
                    f"{at(path, row)}: {len(words)} fields, a line has {expected}",
                    "check for a cut line; fields are separated by tabs",
                )
        if split:
            yield split
