"""Prints the table of a job's fields: the part of `docs/reference/jobs.md` between two marks.

To renew the page:

    python -c 'from flyball.core.job_fields.page import renew; renew("docs/reference/jobs.md")'
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path
from typing import Any

from flyball.core.job_fields import FIELDS
from flyball.core.job_fields.field import JobField

BEGIN = "<!-- fields: written by flyball.core.job_fields.page -->"
END = "<!-- end of fields -->"
HEADINGS = ("field", "option", "job file", "values", "default", "meaning", "since")


def table() -> str:
    """Return the table of all fields that a client may state."""
    lines = [_line(HEADINGS), _line(["---"] * len(HEADINGS))]
    lines += [_line(_cells(row)) for row in FIELDS.values() if row.sent]
    return "\n".join(lines)


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |".replace("  |", " |")


def _cells(row: JobField) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in (row.name, *row.synonyms))
    yield names
    yield ", ".join(f"`{name}`" for name in (*row.option, row.off) if name)
    keys = (*row.keys, *((row.name, *row.synonyms) if _is_key(row) else ()))
    yield ", ".join(f"`{key}`" for key in keys)
    yield row.rule
    yield _default(row.default)
    yield _meaning(row)
    yield row.since


def _is_key(row: JobField) -> bool:
    return row.name != "user"  # the submission states it


def _default(value: Any) -> str:
    if value is MISSING:
        return "must be stated"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, int | float) else ""


def _meaning(row: JobField) -> str:
    """Return what it means; of a field that is not honoured everywhere, what happens then."""
    text = f"{row.meaning} Option: {row.help}" if row.help else row.meaning
    if row.otherwise:
        text += f" Not honoured everywhere: {row.otherwise}."
    return text.replace("|", "\\|")


def renewed(page: str) -> str:
    """Return a page with the current table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def renew(path: str) -> None:
    """Write the current table into a page."""
    file = Path(path)
    file.write_text(renewed(file.read_text("utf-8")), "utf-8")
