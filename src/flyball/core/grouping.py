"""Grouping rows that are equal in several integer columns, fast for millions of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LARGEST_TABLE = 1 << 22
"""Up to this many possible combinations are looked up in a table instead of sorted."""


class Groups(NamedTuple):
    """Rows that are equal share a group; groups are in lexicographic order of the columns.

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
    """The column from 0 up, and how many values that leaves room for."""
    low, high = int(column.min()), int(column.max())
    return column - low, high - low + 1


def _squeezed(codes: Ints, span: int) -> tuple[Ints, int]:
    """Codes without gaps, in the same order, and how many there are."""
    if span > LARGEST_TABLE:
        values, squeezed = np.unique(codes, return_inverse=True)
        return np.ravel(squeezed).astype(np.int64), len(values)
    present = np.zeros(span, np.int64)
    present[codes] = 1
    return (np.cumsum(present) - 1)[codes], int(present.sum())
