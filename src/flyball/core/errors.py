"""Errors a user can mend: each says what is wrong, where, and what to do.

The command line prints `str(error)` on one line and exits with `exit_code`.
A bug of our own is an `assert` or any other exception, never one of these.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FlyballError(Exception):
    """What went wrong, and the remedy.

    Attributes:
        remedy: what the user can do about it, or "".
        exit_code: the process's exit code when this reaches the command line.
    """

    exit_code = 2

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}; {self.remedy}" if self.remedy else message


class BadInput(FlyballError):
    """A file, a row or an option that cannot be used as it is."""


class DataAbsent(FlyballError):
    """Data that is not on this machine; trying later or elsewhere may help."""

    exit_code = 75


class NotFound(BadInput):
    """Something that is asked for by its name or number and is not there."""


class Conflict(BadInput):
    """What is asked for contradicts what was asked for before."""


class Unavailable(FlyballError):
    """It cannot be done just now; trying later may help."""

    exit_code = 75


class UnknownName(BadInput):
    """A name that is not in a registry; says what was perhaps meant."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}", f"{hint}known: {', '.join(names)}")


def at(file: object, row: int | None = None) -> str:
    """Where in a file: `jobs.csv row 7` (the header is row 1)."""
    return f"{file}" if row is None else f"{file} row {row}"
