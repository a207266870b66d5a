"""Groups rows that are equal in several integer columns; fast for millions of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LARGEST_TABLE = 1 << 22
"""Maximum number of possible combinations that are looked up in a table instead of sorted."""


class Groups(NamedTuple):
    """Groups of equal rows, in lexicographic order of the columns.

    Attributes:
        of_row: the group of each row.
        first: the first row of each group.
    """

    of_row: Ints
    first: Ints


def group_rows(*columns: npt.ArrayLike) -> Groups:
    """Group the rows of integer columns of one length."""
    codes, span = _codes(np.asarray(columns[0], np.int64))
    for column in columns[1:]:
        more, width = _codes(np.asarray(column, np.int64))
        if span * width >= 1 << 62:
            codes, span = _squeezed(codes, span)
            more, width = _squeezed(more, width)
        codes, span = codes * width + more, span * width
    of_row, count = _squeezed(codes, span)
    first = np.zeros(count, np.int64)
    first[of_row[::-1]] = np.arange(len(of_row))[::-1]
    return Groups(of_row, first)


def _codes(column: Ints) -> tuple[Ints, int]:
    """Return the column shifted to start at 0, and the size of its range."""
    low, high = int(column.min()), int(column.max())
    return column - low, high - low + 1


def _squeezed(codes: Ints, span: int) -> tuple[Ints, int]:
    """Return the codes renumbered without gaps, in the same order, and how many there are."""
    if span > LARGEST_TABLE:
        values, squeezed = np.unique(codes, return_inverse=True)
        return np.ravel(squeezed).astype(np.int64), len(values)
    present = np.zeros(span, np.int64)
    present[codes] = 1
    return (np.cumsum(present) - 1)[codes], int(present.sum())
