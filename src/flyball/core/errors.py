"""Errors that a user can fix: each says what is wrong, where, and what to do.

The command line prints `str(error)` on one line and exits with `exit_code`.
A bug in Flyball is an `assert` or any other exception, never one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FlyballError(Exception):
    """Base of all errors: what went wrong, and the remedy.

    Attributes:
        remedy: what the user can do about it, or "".
        exit_code: the process's exit code when this reaches the command line.
        details: further lines, such as the end of a traceback in the user's own code, or "".
    """

    exit_code = 2
    details = ""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}; {self.remedy}" if self.remedy else message


class BadInput(FlyballError):
    """A file, a row or an option is invalid."""


class DataAbsent(FlyballError):
    """Data is not on this machine; trying later or elsewhere may help."""

    exit_code = 75


class NotFound(BadInput):
    """Nothing has the requested name or number."""


class Conflict(BadInput):
    """A request contradicts an earlier one."""


class Unavailable(FlyballError):
    """A request cannot be served at the moment; trying later may help."""

    exit_code = 75


class UnknownName(BadInput):
    """A name is not in a registry; the remedy suggests the nearest one."""

    def __init__(self, kind: str, name: str, choices: Iterable[str]) -> None:
        names = sorted(choices)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}", f"{hint}known: {', '.join(names)}")


def at(file: object, row: int | None = None) -> str:
    """Return a place in a file as text: `jobs.csv row 7` (the header is row 1)."""
    return f"{file}" if row is None else f"{file} row {row}"


def whole_number(value: int, name: str, low: int, high: int) -> int:
    """Return an option's value if it is in range.

    Raises:
        BadInput: the value is out of range.
    """
    if not low <= value <= high:
        raise BadInput(f"{name} {value} is out of range", f"use {low} to {high}")
    return value
