"""How the values of a job's fields are written on the command line and in job files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flyball.cli.jobs.begin_time import moment
from flyball.cli.jobs.sbatch import memory_mib, node_count, time_s
from flyball.core.errors import BadInput
from flyball.core.job_fields import FIELDS
from flyball.core.job_fields.field import JobField
from flyball.core.job_fields.forms import Structure, Text, invalid

Reader = Callable[[str], Any]
NOTATIONS: dict[str, Reader] = {
    "duration": time_s,
    "moment": moment,
    "nodes": node_count,
    "size": memory_mib,
}
"""Readers of the notations that fields name."""
MOST_PATH = 4096


def path_text(value: str) -> str:
    """Return a path as it was written, if it is printable."""
    return Text(MOST_PATH).read(value)


def reader_of(row: JobField) -> Reader:
    """Return the reader of a field's values on the command line."""
    if row.notation:
        return within(row, NOTATIONS[row.notation])
    return plain_reader_of(row)


def plain_reader_of(row: JobField) -> Reader:
    """Return the reader of a field's values as HTTP has them: `90`, not `1:30`."""
    assert not isinstance(row.form, Structure), f"{row.name} has its own reader"
    return within(row, row.form.read)


def within(row: JobField, read: Reader) -> Reader:
    """Return a reader that also checks the field's bounds."""

    def checked(text: str) -> Any:
        try:
            value = read(text)
            if not row.form.allows(value):
                raise invalid(text, row)
        except BadInput as error:
            raise BadInput(str(error), row.advice) from None
        return value

    return checked


def check(name: str, value: Any) -> None:
    """Check a value that was computed, not read.

    Raises:
        BadInput: it is out of bounds.
    """
    row = FIELDS[name]
    if not row.form.allows(value):
        raise BadInput(f"{name}: {invalid(value, row)}")
