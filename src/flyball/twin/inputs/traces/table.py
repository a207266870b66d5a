"""Tables of jobs in CSV: read in chunks and checked by column; the first fault is an error.

A table is described by `Field`s. Numbers become arrays and names become codes chunk by chunk,
so the memory needed is that of the arrays plus one chunk of text.
"""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.errors import BadInput, at
from flyball.twin.inputs.traces.files import opened

MAX_ROWS = 20_000_000
CHUNK_ROWS = 10_000
MAX_NAME = 100
MAX_TIME_S = 1e11
MAX_DEVICES = 1_000_000

Rows = list[list[str]]


@dataclass(frozen=True)
class Field:
    """Describes one column of a table.

    Attributes:
        name: its name in the header.
        kind: `number`, `whole` (number), `name` (coded), `text` (kept as it is).
        required: whether it must be in the header and not be empty in any row.
        low, high: the range of a number.
        empty: value of an empty field.
        remedy: what to do about an invalid value.
    """

    name: str
    kind: str = "number"
    required: bool = False
    low: float = 0.0
    high: float = MAX_TIME_S
    empty: float = math.nan
    remedy: str = ""


@dataclass
class Table:
    """Holds an array for each column that was read.

    Attributes:
        file: its path, for messages.
        columns: numbers as float64, names as int64 codes (-1 = empty), text as arrays of str.
        names: for each coded column, its names in order of code.
        rows: the row number in the file of each job, the header being row 1.
    """

    file: Path
    columns: dict[str, npt.NDArray[Any]]
    names: dict[str, tuple[str, ...]]
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Table:
        """Return the table of the chosen jobs."""
        columns = {name: column[chosen] for name, column in self.columns.items()}
        return Table(self.file, columns, self.names, self.rows[chosen])

    def fault(self, index: int, column: str, value: object, why: str, remedy: str) -> BadInput:
        """Return the error for one value."""
        return fault(self.file, int(self.rows[index]), column, value, why, remedy)


def fault(file: Path, row: int, column: str, value: object, why: str, remedy: str) -> BadInput:
    """Return the error for one value, with its file, row and column, the reason and a remedy."""
    shown = str(value) if len(str(value)) <= 40 else f"{str(value)[:37]}..."
    return BadInput(f"{at(file, row)}: {column} = {shown!r} {why}", remedy)


def too_many(file: Path, count: int) -> BadInput:
    """Return the error for more jobs than are read from one file."""
    return BadInput(
        f"{file} has {count:,} jobs or more, the limit is {MAX_ROWS:,}", "split it by time"
    )


def read_header(path: Path) -> list[str]:
    """Return the column names of a CSV file; empty for an empty file."""
    with opened(path) as lines:
        header = next((row for row in csv.reader(lines) if row), [])
    return [name.strip() for name in header]


def read_table(path: Path, fields: Sequence[Field]) -> Table:
    """Read the columns named by `fields`; other columns are ignored."""
    with opened(path) as lines:
        csv_rows = csv.reader(lines)
        header = next((row for row in csv_rows if row), None)
        if header is None:
            raise BadInput(f"{path} is empty", "a trace has a header and a row for each job")
        places = _places(path, [name.strip() for name in header], fields)
        readers = [_ColumnReader(path, column) for column in fields if column.name in places]
        rows: list[npt.NDArray[np.int64]] = []
        for row_numbers, chunk in _chunks(path, csv_rows, len(header), csv_rows.line_num):
            columns = list(zip(*chunk, strict=True))
            for reader in readers:
                reader.add(columns[places[reader.column.name]], row_numbers)
            rows.append(row_numbers)
    if not rows:
        raise BadInput(f"{path} has a header but no jobs", "add a row for each job")
    return Table(
        path,
        {reader.column.name: np.concatenate(reader.arrays) for reader in readers},
        {
            reader.column.name: tuple(reader.codes)
            for reader in readers
            if reader.column.kind == "name"
        },
        np.concatenate(rows),
    )


def _places(path: Path, header: list[str], fields: Sequence[Field]) -> dict[str, int]:
    """Return the index of each column; a missing one is an error that suggests a near name."""
    for column in fields:
        if header.count(column.name) > 1:
            raise BadInput(f"{at(path, 1)}: column {column.name!r} appears twice", "remove one")
    spare = [name for name in header if name not in {column.name for column in fields}]
    for column in fields:
        if column.required and column.name not in header:
            near = difflib.get_close_matches(column.name, spare, n=1, cutoff=0.5)
            hint = f"is it the column {near[0]!r}? " if near else ""
            needed = ", ".join(field.name for field in fields if field.required)
            raise BadInput(
                f"{at(path, 1)}: no column {column.name!r}", f"{hint}required columns: {needed}"
            )
    return {column.name: header.index(column.name) for column in fields if column.name in header}


def _chunks(
    path: Path, reader: Iterator[list[str]], width: int, header_lines: int
) -> Iterator[tuple[npt.NDArray[np.int64], Rows]]:
    """Yield rows with their numbers, a chunk at a time; blank lines are skipped."""
    line_number = header_lines
    while chunk := list(islice(reader, CHUNK_ROWS)):
        numbers = np.arange(line_number + 1, line_number + 1 + len(chunk))
        line_number += len(chunk)
        if line_number - header_lines > MAX_ROWS:
            raise too_many(path, line_number - header_lines)
        if set(map(len, chunk)) != {width}:
            filled = [i for i, row in enumerate(chunk) if row]
            for i in filled:
                if len(chunk[i]) != width:
                    raise BadInput(
                        f"{at(path, int(numbers[i]))}: {len(chunk[i])} fields, the header "
                        f"has {width}",
                        "check for a cut line or a comma inside a field",
                    )
            numbers, chunk = numbers[filled], [chunk[i] for i in filled]
        if chunk:
            yield numbers, chunk


@dataclass
class _ColumnReader:
    """Collects one column chunk by chunk."""

    file: Path
    column: Field
    arrays: list[npt.NDArray[Any]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def add(self, texts: tuple[str, ...], rows: npt.NDArray[np.int64]) -> None:
        if self.column.required and "" in texts:
            row = int(rows[texts.index("")])
            raise fault(self.file, row, self.column.name, "", "is empty", "every row needs one")
        if self.column.kind == "name":
            self.arrays.append(self._coded(texts))
        elif self.column.kind == "text":
            self.arrays.append(self._texts(texts, rows))
        else:
            self.arrays.append(numbers(self.file, self.column, texts, rows))

    def _coded(self, texts: tuple[str, ...]) -> npt.NDArray[np.int64]:
        for text in dict.fromkeys(texts):
            if text:
                self.codes.setdefault(text, len(self.codes))
        codes = {**self.codes, "": -1}
        return np.fromiter(map(codes.__getitem__, texts), np.int64, len(texts))

    def _texts(self, texts: tuple[str, ...], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.str_]:
        if max(map(len, texts)) > MAX_NAME or not "".join(texts).isprintable():
            for text, row in zip(texts, rows, strict=True):
                if len(text) > MAX_NAME or not text.isprintable():
                    why = f"is not a printable name of at most {MAX_NAME} characters"
                    raise fault(
                        self.file, int(row), self.column.name, text, why, "use a short plain name"
                    )
        return np.array(texts)


def numbers(
    file: Path, column: Field, texts: Sequence[str], rows: Iterable[int]
) -> npt.NDArray[np.float64]:
    """Return texts as checked numbers."""
    try:
        values = np.fromiter(map(float, texts), np.float64, len(texts))
        blank = None
    except ValueError:
        blank = np.array([not text.strip() for text in texts])
        values = np.array([_float(text) for text in texts])
        values[blank] = column.empty
    good = (values >= column.low) & (values <= column.high)
    if column.kind == "whole":
        good &= values == np.floor(values)
    if blank is not None and not column.required:
        good |= blank
    if not good.all():
        i = int(np.argmin(good))
        raise fault(
            file,
            int(list(rows)[i]),
            column.name,
            texts[i],
            _why(column, texts[i]),
            column.remedy or "correct or remove the row",
        )
    return values


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _why(column: Field, text: str) -> str:
    value = _float(text)
    kind = "whole number" if column.kind == "whole" else "number"
    if not math.isfinite(value):
        return f"is not a {kind}"
    if value < 0 <= column.low:
        return "is negative"
    if column.low <= value <= column.high:
        return "is not a whole number"
    return f"is outside {column.low:g} to {column.high:g}"
