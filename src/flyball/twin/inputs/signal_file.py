"""A series from a CSV file, plain or gzipped: a column of times, one of values, perhaps regions."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import US_PER_S, to_us
from flyball.predict.load.table import TIME_NAMES
from flyball.twin.inputs.traces.files import opened

REGION_NAMES = ("region", "market", "area", "country")
"""Names of the column that tells regions apart, in order of preference."""
LEAST, MOST = -1e6, 1e6
"""Range of a value; prices may be negative."""
MAX_ROWS = 5_000_000
RELATIVE_S = 1e8
"""Numeric times that begin below this count from the trace's time 0, not from 1970."""


class FileSteps(NamedTuple):
    """Holds the steps of a series.

    Attributes:
        name: file, region and column.
        times_us: microseconds since 1970; from a trace's time 0 if `relative`.
        values: as in the file.
        notes: what was assumed or left out.
    """

    name: str
    times_us: list[int]
    values: list[float]
    notes: tuple[str, ...]
    relative: bool


@dataclass(frozen=True)
class _Columns:
    """Places of the columns of a file."""

    time: int
    value: int
    region: int | None
    value_name: str


def read_steps(path: Path, fields: Mapping[str, Any], zone: tzinfo, where: str) -> FileSteps:
    """Read the rows of a series.

    Args:
        path: the file.
        fields: perhaps `column`, `time`, `region`, `zone`.
        zone: of times that state none.
        where: the place that names the file, for messages.

    Raises:
        BadInput: no such file or column, a value that is not a number, times out of order.
    """
    region = str(fields.get("region", ""))
    clock = _FileClock(path, zone)
    times_us: list[int] = []
    values: list[float] = []
    empty, regions = 0, set[str]()
    with opened(path) as lines:
        rows = csv.reader(lines)
        header = [name.strip() for name in next(rows, [])]
        columns = _columns(path, header, fields, where)
        for row_number, row in _rows(path, rows, len(header)):
            if columns.region is not None:
                regions.add(row[columns.region])
                if region and row[columns.region] != region:
                    continue
            value = _value(path, row_number, columns.value_name, row[columns.value])
            time_us = clock.read(row_number, row[columns.time])
            if time_us is None or value is None:
                empty += value is None
                continue
            if times_us and time_us <= times_us[-1] and (region or len(regions) < 2):
                raise BadInput(
                    f"{at(path, row_number)}: {row[columns.time]} is not after the row before it",
                    "sort the rows by time and leave one of each time",
                )
            times_us.append(time_us)
            values.append(value)
    _check_regions(path, region, regions, where)
    if not times_us:
        raise BadInput(f"{path} has no values in {columns.value_name}", "check file and column")
    notes = clock.notes(header[columns.time], "zone" in fields)
    notes += [f"{empty:,} rows without a value hold the one before"] if empty else []
    name = " ".join(part for part in (path.name, region, columns.value_name) if part)
    return FileSteps(name, times_us, values, tuple(notes), clock.relative)


def _check_regions(path: Path, region: str, regions: set[str], where: str) -> None:
    if region and regions and region not in regions:
        raise UnknownName(f"region of {path.name}", region, regions)
    if region and not regions:
        raise BadInput(
            f"{where}: {path.name} has no column of regions",
            f"name it one of {', '.join(REGION_NAMES)}, or leave out region",
        )
    if not region and len(regions) > 1:
        names = ", ".join(sorted(regions))
        raise BadInput(f"{where}: {path.name} has {len(regions)} regions", f"name one of {names}")


def _columns(path: Path, header: list[str], fields: Mapping[str, Any], where: str) -> _Columns:
    """Return where the columns are; the time's and the value's may be named by the user."""
    if not header:
        raise BadInput(f"{path} is empty", "a series has a header with a time and a value column")
    for key in ("time", "column"):
        if key in fields and fields[key] not in header:
            raise UnknownName(f"column of {path.name}", str(fields[key]), header)
    times = [name for name in TIME_NAMES if name in header]
    time_name = fields.get("time") or (times[0] if times else None)
    if time_name is None:
        raise BadInput(f"{path.name} has no column of times", f"{where}: state `time: COLUMN`")
    regions = [name for name in REGION_NAMES if name in header]
    others = [name for name in header if name not in (time_name, *regions)]
    value_name = fields.get("column") or (others[0] if len(others) == 1 else None)
    if value_name is None:
        names = ", ".join(others)
        raise BadInput(
            f"{where}: {path.name} has {len(others)} columns of values", f"state `column:` {names}"
        )
    region = header.index(regions[0]) if regions else None
    return _Columns(header.index(time_name), header.index(value_name), region, value_name)


def _rows(path: Path, rows: Iterator[list[str]], width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank, with their numbers; the header is row 1."""
    for row_number, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != width:
            raise BadInput(
                f"{at(path, row_number)}: {len(row)} fields, the header has {width}",
                "check for a cut line or a comma inside a field",
            )
        if row_number > MAX_ROWS:
            raise BadInput(f"{path} has more than {MAX_ROWS:,} rows", "cut it to the years needed")
        yield row_number, row


def _value(path: Path, row_number: int, column: str, text: str) -> float | None:
    """Return a value; None if there is none."""
    if text.strip().lower() in ("", "nan", "na", "null"):
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not LEAST <= value <= MOST:
        raise BadInput(
            f"{at(path, row_number)}: {column} = {text[:40]!r} is not a number of this size",
            f"use {LEAST:g} to {MOST:g}, or leave the field empty",
        )
    return value


class _FileClock:
    """Reads the times of a file, row by row."""

    def __init__(self, path: Path, zone: tzinfo) -> None:
        self._path, self._zone = path, zone
        self._before: datetime | None = None
        self._skipped = 0
        self._first_number: float | None = None
        self._local = False

    def read(self, row_number: int, text: str) -> int | None:
        """Return an instant in microseconds; None for a local time that does not exist."""
        try:
            seconds = float(text)
        except ValueError:
            return self._dated(row_number, text)
        if not math.isfinite(seconds):
            raise self._bad(row_number, text)
        if self._first_number is None:
            self._first_number = seconds
        return to_us(seconds)

    def _dated(self, row_number: int, text: str) -> int | None:
        try:
            instant = datetime.fromisoformat(text.strip())
        except ValueError:
            raise self._bad(row_number, text) from None
        if instant.tzinfo is None:
            self._local = True
            # The hour that autumn repeats is in the file twice: the second time is winter time.
            again = instant == self._before
            self._before = instant
            local = instant.replace(tzinfo=self._zone, fold=int(again))
            if local.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) != instant:
                self._skipped += 1
                return None
            instant = local
        return round(instant.timestamp() * US_PER_S)

    def _bad(self, row_number: int, text: str) -> BadInput:
        return BadInput(
            f"{at(self._path, row_number)}: time = {text[:40]!r} is not a time",
            "write 2024-03-31 14:00, or seconds since 1970",
        )

    @property
    def relative(self) -> bool:
        """Return whether the times count from a trace's time 0."""
        return self._first_number is not None and self._first_number < RELATIVE_S

    def notes(self, column: str, zone_stated: bool) -> list[str]:
        """Return what must be said about the times."""
        notes = []
        if self._local and not zone_stated and "local" in column:
            notes.append(f"times of column {column} are taken as UTC (`zone` states another)")
        if self._skipped:
            notes.append(f"{self._skipped:,} local times that do not exist are left out")
        return notes
