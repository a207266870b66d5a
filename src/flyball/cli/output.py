"""Output that commands share: tables, JSON, notes, and checks of files and numbers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from flyball.core.errors import BadInput
from flyball.core.errors import whole_number as whole_number

WIDE = 160
"""Width, in columns, of a table that goes to a file or a pipe."""
MANY_ROWS = 500
"""Longer tables are printed without folding: measuring and folding each cell is slow."""


def note(message: str) -> None:
    """Print a message for people on stderr, so that stdout holds only the output."""
    typer.echo(message, err=True)


def print_json(value: Any) -> None:
    """Print a value as JSON on stdout; NaN becomes null."""
    from flyball.core.metrics import without_nan

    typer.echo(json.dumps(without_nan(value), indent=2, allow_nan=False))


def print_table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1
) -> None:
    """Print a table on stdout; the first `left` columns are text, the rest numbers."""
    if len(rows) > MANY_ROWS and not title:
        for line in long_table(header, rows, left):
            typer.echo(line)
        typer.echo()
        return
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.padding = (0, 1, 0, 0)
    for index, name in enumerate(header):
        # Text may be folded, names and numbers may not: a line may be too long, never cut off.
        unfolded = index == 0 or index >= left
        widest = max(len(name), *(len(row[index]) for row in rows), 0)
        table.add_column(
            name,
            justify="left" if index < left else "right",
            overflow="fold",
            no_wrap=unfolded,
            min_width=widest if unfolded else None,
        )
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False, emoji=False)
    minimum_width = Measurement.get(console, console.options.update(width=1000), table).minimum
    console.width = max(console.width if sys.stdout.isatty() else WIDE, minimum_width)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    typer.echo("\n".join(lines).strip("\n") + "\n")


def long_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Yield the lines of a table in which nothing is folded, which is much faster."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(header, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(cells, widths, strict=True)]
        padded = [
            cell + gap if at < left else gap + cell
            for at, (cell, gap) in enumerate(zip(cells, gaps, strict=True))
        ]
        return f" {'  '.join(padded)}".rstrip()

    yield line(header)
    yield f" {'─' * (sum(widths) + 2 * len(widths) - 2)}"
    for row in rows:
        yield line(row)


def check_writable(path: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Check before a long run that an output file can be written.

    Raises:
        BadInput: no such folder, no permission, a folder in its place, an unknown ending.
    """
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise BadInput(f"{path}: cannot write this kind of file", f"use {' or '.join(endings)}")
    folder = path.parent
    if not folder.is_dir():
        raise BadInput(f"{path}: no folder {str(folder)!r}", "make it or name another")
    if path.is_dir():
        raise BadInput(f"{path} is a folder", "name a file in it")
    if path.exists() and not path.is_file():  # a device or a pipe must not be replaced
        raise BadInput(f"{path} is not an ordinary file", "name another")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInput(f"{path}: folder {str(folder)!r} is not writable", "name another")
