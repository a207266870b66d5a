"""Series from a CSV file, plain or .gz: a column of times, one of values, optionally a key."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flyball.core.errors import BadInput, UnknownName
from flyball.predict.series import Series, regular

TIME_NAMES = ("time", "time_utc", "time_local", "time_s", "t_s", "timestamp", "date", "submit_s")
"""Names of time columns, in order of preference, if the user names none."""
MOST_ROWS = 5_000_000


def read_series(
    path: Path,
    column: str,
    time_column: str | None = None,
    where: Mapping[str, str] | None = None,
    step_s: float | None = None,
    now_s: float | None = None,
    zone: str = "",
    also: Sequence[str] = (),
) -> Series:
    """Read one column of a file as a series on an even grid.

    Args:
        where: only rows whose columns have these values, e.g. `{"vc": "vc3sl"}`.
        step_s: the grid; None = the median distance of the stamps.
        now_s: rows dated later are left out.
        zone: time zone of users' days; times are then taken as UTC.
        also: further columns on the same grid, for forecasters that use them.

    Raises:
        BadInput: there is no such file or column, or it has no usable value.
    """
    if zone:
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise BadInput(f"no time zone {zone!r}", "name one such as Europe/Berlin") from error
    times: list[float] = []
    columns: dict[str, list[float]] = {name: [] for name in (column, *also)}
    required = where or {}
    time_name = ""
    for number, row in enumerate(_rows(path)):
        if not number:
            time_name = _time_column(path, row, time_column)
            for name in (*columns, *required):
                if name not in row:
                    raise UnknownName(f"column of {path.name}", name, row)
        if any(row[name] != value for name, value in required.items()):
            continue
        times.append(time_of(row[time_name]))
        for name, values in columns.items():
            values.append(_number(row[name]))
    if not times:
        chosen = ", ".join(f"{name}={value}" for name, value in required.items())
        raise BadInput(f"{path.name}: no rows{f' with {chosen}' if chosen else ''}", "check it")
    name = " ".join([column, *required.values()])
    series = regular(name, times, columns[column], step_s, now_s, zone)
    return _with_columns(series, times, {name: columns[name] for name in also}, now_s)


def _with_columns(
    series: Series, times: list[float], columns: dict[str, list[float]], now_s: float | None
) -> Series:
    import numpy as np

    also = {}
    for name, values in columns.items():
        if np.isfinite(values).any():
            other = regular(name, times, values, series.step_s, now_s).values
            also[name] = np.resize(other, len(series))
    return Series(
        series.name, series.start_s, series.step_s, series.values, also, series.zone, series.notes
    )


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        open_file = gzip.open if packed else open
        with open_file(path, "rt", encoding="utf-8-sig", newline="") as text:
            for number, row in enumerate(csv.DictReader(text)):
                if number >= MOST_ROWS:
                    raise BadInput(f"{path}: more than {MOST_ROWS:,} rows", "reduce it first")
                yield {str(name): value or "" for name, value in row.items() if name is not None}
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path}: cannot be read: {error}", "name a CSV file") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}: not a CSV file: {error}", "name a CSV file") from error


def _time_column(path: Path, row: Mapping[str, str], requested: str | None) -> str:
    if requested is not None:
        if requested not in row:
            raise UnknownName(f"column of {path.name}", requested, row)
        return requested
    for name in TIME_NAMES:
        if name in row:
            return name
    raise BadInput(f"{path.name}: no column of times", f"name one of {', '.join(row)} with --time")


def _number(text: str) -> float:
    """Return a number, NaN for anything else: missing values are written in many ways."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def time_of(text: str) -> float:
    """Return seconds: a number as it is, a date and time since 1970 (UTC if it has no zone)."""
    value = _number(text)
    if not math.isnan(value):
        return value
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
