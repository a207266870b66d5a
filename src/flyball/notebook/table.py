"""A small table: rows of plain values, shown as text or HTML, or turned into a pandas frame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from flyball.core.errors import BadInput, DataAbsent, UnknownName

SHOWN_ROWS = 20
"""Longer tables show this many rows."""
Row = dict[str, Any]


class Column(NamedTuple):
    """How a column is shown.

    Attributes:
        heading: with its unit.
        text: formats the values of `keys` in a row.
        keys: the fields of the row that it shows.
        is_text: it is aligned left.
    """

    heading: str
    text: Callable[..., str]
    keys: tuple[str, ...]
    is_text: bool = False


def plain(key: str, text: Callable[[Any], str] = str, heading: str = "") -> Column:
    """Return a column that shows one field; None is shown as nothing."""
    return Column(heading or key, lambda value: "" if value is None else text(value), (key,))


def words(key: str, heading: str = "") -> Column:
    """Return a column of words."""
    return plain(key, str, heading)._replace(is_text=True)


class Table:
    """Rows of plain values: `table[0]` is a row, `table["wait_s"]` a column.

    Attributes:
        title: what the rows are.
        rows: every row, with all its fields.
        notes: sentences below the table.
    """

    def __init__(
        self, title: str, rows: Sequence[Row], shown: Sequence[Column], notes: Sequence[str] = ()
    ) -> None:
        self.title, self.rows, self.notes = title, list(rows), tuple(notes)
        self._shown = tuple(shown)

    @property
    def columns(self) -> list[str]:
        """Return the names of the fields."""
        return list(self.rows[0]) if self.rows else []

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, int):
            return self.rows[key]
        if key not in self.columns:
            raise UnknownName("column", str(key), self.columns)
        return [row[key] for row in self.rows]

    def where(self, **values: Any) -> Table:
        """Return the rows whose fields have these values: `jobs.where(policy="easy")`."""
        for key in values:
            if key not in self.columns:
                raise UnknownName("column", key, self.columns)
        kept = [row for row in self.rows if all(row[key] == values[key] for key in values)]
        return Table(self.title, kept, self._shown, self.notes)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a column per field.

        Raises:
            DataAbsent: pandas is not installed.
        """
        return pandas().DataFrame(self.rows, columns=self.columns)

    def __repr__(self) -> str:
        cells = self._cells()
        head = [column.heading for column in self._shown]
        widths = [max(map(len, texts)) for texts in zip(head, *cells, strict=True)]
        lines = [self.title, _line(head, widths, self._shown)]
        lines += [_line(row, widths, self._shown) for row in cells]
        return "\n".join([*lines, *self._remarks()])

    def _repr_html_(self) -> str:
        head = "".join(_cell("th", column.heading, column) for column in self._shown)
        body = "".join(
            "<tr>" + "".join(map(_cell, ["td"] * len(row), row, self._shown)) + "</tr>"
            for row in self._cells()
        )
        below = "".join(f"<p><small>{escape(text)}</small></p>" for text in self._remarks())
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"<p><b>{escape(self.title)}</b></p>{table}{below}"

    def _cells(self) -> list[list[str]]:
        return [
            [column.text(*(row[key] for key in column.keys)) for column in self._shown]
            for row in self.rows[:SHOWN_ROWS]
        ]

    def _remarks(self) -> list[str]:
        rest = len(self.rows) - SHOWN_ROWS
        more = f"{SHOWN_ROWS} of {len(self.rows):,} rows; .rows has all, .where(...) selects"
        return ([more] if rest > 0 else []) + [f"note: {note}" for note in self.notes]


def _line(texts: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    padded = [
        text.ljust(width) if column.is_text else text.rjust(width)
        for text, width, column in zip(texts, widths, columns, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _cell(tag: str, text: str, column: Column) -> str:
    side = "left" if column.is_text else "right"
    return f'<{tag} style="text-align: {side}">{escape(text)}</{tag}>'


def pandas() -> Any:
    """Return the module pandas.

    Raises:
        DataAbsent: it is not installed.
    """
    try:
        import pandas as module  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise DataAbsent(
            "pandas is not installed", "pip install pandas, or use .rows: a list of dicts"
        ) from None
    return module


def flat(values: Mapping[str, Any]) -> Row:
    """Return a mapping without nesting: `{"wait_s": {"p50": 3}}` becomes `{"wait_s_p50": 3}`."""
    out: Row = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            out |= {f"{key}_{inner}": content for inner, content in value.items()}
        else:
            out[key] = value
    return out


def check_choice(value: str, choices: Sequence[str], name: str) -> str:
    """Return a value that must be one of a few.

    Raises:
        BadInput: it is none of them.
    """
    if value not in choices:
        raise BadInput(f"{name}={value!r} is not possible", f"use {' or '.join(choices)}")
    return value
