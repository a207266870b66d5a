"""Parquet files of telemetry: delta-encoded integers, compressed, written atomically.

A column holds integers, in units of its step (in the file's metadata), so that neighbouring values
differ by little and take few bits. The step follows from the unit in the name;
`docs/reference/metrics.md` lists the steps.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flyball.core.results import Floats
from flyball.monitor.spool import Row

TIME_STEP_S = 1e-5
STEPS = {"_percent": 0.01, "_s": 1e-4, "_j": 1e-3, "_w": 0.01, "_c": 0.1, "_v": 1e-3, "_mhz": 1.0}
"""Resolution to which values are stored, by the unit in their names. Columns of other units are
stored exactly, as integers if all values are."""
LEVEL = 9
"""Compression level of zstd: beyond it files shrink by less than 1 %."""
MARK = b"flyball_telemetry"
VERSION = 1


class Segment(NamedTuple):
    """Values of a family over a period: NaN where a value was not sampled at that time."""

    times_s: Floats
    columns: Mapping[str, Floats]
    spans: Sequence[int]
    """Start times of the minutes it covers."""


def _arrow() -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, imported on first use: they take 30 MB and 0.2 s."""
    return import_module("pyarrow"), import_module("pyarrow.parquet")


def step_of(name: str) -> float:
    """Return the resolution to which values of this name are stored: 0 = exactly."""
    stem = name.removesuffix("_total")
    return next((step for unit, step in STEPS.items() if stem.endswith(unit)), 0.0)


def gather(rows: Iterable[Row], start_s: int) -> Segment:
    """Combine the rows of several sources into one row for each time."""
    by_names: dict[tuple[str, ...], list[tuple[float, ...]]] = {}
    for row in rows:
        by_names.setdefault(row.names, []).append((row.time_s, *row.values))
    parts = [(names, np.array(table)) for names, table in by_names.items()]
    return _join([(table[:, 0], names, table[:, 1:]) for names, table in parts], [start_s])


def merge(segments: Sequence[Segment]) -> Segment:
    """Merge several segments into one."""
    parts = []
    for segment in segments:
        names = tuple(segment.columns)
        if names:
            table = np.column_stack([segment.columns[name] for name in names])
            parts.append((segment.times_s, names, table))
    return _join(parts, sorted({span for segment in segments for span in segment.spans}))


def _join(parts: Sequence[tuple[Floats, tuple[str, ...], Floats]], spans: list[int]) -> Segment:
    if not parts:
        return Segment(np.zeros(0), {}, spans)
    times = np.unique(np.concatenate([part[0] for part in parts]))
    columns: dict[str, Floats] = {}
    for part_times, names, table in parts:
        at = np.searchsorted(times, part_times)
        for index, name in enumerate(names):
            column = columns.get(name)
            if column is None:
                column = columns[name] = np.full(len(times), np.nan)
            values = table[:, index]
            there = ~np.isnan(values)
            column[at[there]] = values[there]
    return Segment(times, columns, spans)


def write(path: Path, segment: Segment) -> int:
    """Write a segment atomically, under another name first; returns the file's size in bytes."""
    pa, _ = _arrow()

    names = sorted(segment.columns)
    steps = {name: _best_step(name, segment.columns[name]) for name in names}
    arrays = [_array(segment.times_s, TIME_STEP_S)]
    arrays += [_array(segment.columns[name], steps[name]) for name in names]
    about = {"version": VERSION, "steps": steps, "spans": list(segment.spans)}
    fields = [
        pa.field(name, array.type) for name, array in zip(("time", *names), arrays, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    encodings = {name: "DELTA_BINARY_PACKED" if steps[name] else "PLAIN" for name in names}
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        _write_table(temporary, table, {"time": "DELTA_BINARY_PACKED", **encodings}, about)
        size = temporary.stat().st_size
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return size


def _write_table(path: Path, table: Any, encodings: Mapping[str, str], about: Any) -> None:
    """Write a table without Arrow's copy of the schema and without statistics: both would take
    more space than the values of a minute."""
    _, pq = _arrow()
    with pq.ParquetWriter(
        path,
        table.schema,
        compression="zstd",
        compression_level=LEVEL,
        use_dictionary=False,
        column_encoding=encodings,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({MARK.decode(): json.dumps(about)})


def _array(values: Floats, step: float) -> Any:
    """Return a column as an Arrow array, built from buffers: `pyarrow.array` would import pandas
    where it is installed, which takes as long as writing ten minutes of values."""
    pa, _ = _arrow()
    there = ~np.isnan(values)
    if step:
        data, kind = np.round(np.where(there, values, 0.0) / step).astype(np.int64), pa.int64()
    else:
        data, kind = np.ascontiguousarray(values), pa.float64()
    valid = None if bool(there.all()) else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(data)])


def _best_step(name: str, values: Floats) -> float:
    step = step_of(name)
    sampled = values[~np.isnan(values)]
    if len(sampled) and float(np.abs(sampled).max()) >= 2.0**53 * (step or 1.0):
        return 0.0
    if step == 0.0 and bool(np.all(sampled == np.round(sampled))):
        return 1.0
    return step


def read(path: Path, names: Sequence[str] | None = None) -> Segment:
    """Read a segment, or only these of its columns (missing ones are left out).

    Raises:
        ValueError: the file is damaged, incomplete, or not a segment.
    """
    pa, pq = _arrow()

    try:
        with pq.ParquetFile(path) as file:
            about = json.loads((file.metadata.metadata or {})[MARK])
            steps: dict[str, float] = about["steps"]
            columns_read = [name for name in (steps if names is None else names) if name in steps]
            table = file.read(["time", *columns_read], use_threads=False)
        times = _values(table["time"], TIME_STEP_S)
        columns = {name: _values(table[name], steps[name]) for name in columns_read}
        return Segment(times, columns, [int(start_s) for start_s in about["spans"]])
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a whole segment ({error})") from error


def names_in(path: Path) -> list[str]:
    """Return the column names of a segment.

    Raises:
        ValueError: the file is damaged, incomplete, or not a segment.
    """
    pa, pq = _arrow()

    try:
        metadata = pq.read_metadata(path).metadata or {}
        return sorted(json.loads(metadata[MARK])["steps"])
    except (pa.ArrowException, OSError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a whole segment ({error})") from error


def _values(column: Any, step: float) -> Floats:
    """Return the values of an Arrow column, read from its buffers as in `_array`; NaN = missing."""
    parts = []
    for chunk in column.chunks:
        valid, data = chunk.buffers()
        kind = np.int64 if step else np.float64
        end = chunk.offset + len(chunk)
        values = np.frombuffer(data, kind, end)[chunk.offset :].astype(np.float64)
        if valid is not None and chunk.null_count:
            there = np.unpackbits(np.frombuffer(valid, np.uint8), count=end, bitorder="little")
            values[there[chunk.offset :] == 0] = np.nan
        parts.append(values * step if step else values)
    return np.concatenate(parts) if parts else np.zeros(0)
