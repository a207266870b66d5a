"""Heaps against sorting. Inner compiled functions: they can be called with the compiler off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from flyball.core.records import ENTRY, Records, records
from flyball.schedule import heap

pytestmark = [
    pytest.mark.nojit,
    pytest.mark.skipif(
        not config.DISABLE_JIT, reason="inner kernel functions run only with NUMBA_DISABLE_JIT=1"
    ),
]

BEGIN = 3
ENTRIES = st.lists(st.integers(0, 9), max_size=40).map(
    lambda keys: [(float(key), tie) for tie, key in enumerate(keys)]
)
"""Small keys, so that ties decide."""


def filled(entries: list[tuple[float, int]]) -> Records:
    """Entries pushed one by one behind a few that must not be touched."""
    out = records(BEGIN + len(entries) + 1, ENTRY)
    out[:BEGIN] = (-1.0, -1)
    for size, (key, tie) in enumerate(entries):
        heap.push(out, BEGIN, size, key, tie)
    return out


def drained(of: Records, size: int) -> list[tuple[float, int]]:
    out = []
    for left in range(size, 0, -1):
        out.append((float(of[BEGIN].key), int(of[BEGIN].tie)))
        heap.drop_top(of, BEGIN, left)
    return out


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ENTRIES)
def test_comes_out_in_order(entries: list[tuple[float, int]]) -> None:
    filled_ = filled(entries)
    assert drained(filled_, len(entries)) == sorted(entries)
    assert (filled_.tie[:BEGIN] == -1).all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ENTRIES)
def test_heapify(entries: list[tuple[float, int]]) -> None:
    out = records(BEGIN + len(entries) + 1, ENTRY)
    for at, entry in enumerate(entries):
        out[BEGIN + at] = entry
    heap.heapify(out, BEGIN, len(entries))
    assert drained(out, len(entries)) == sorted(entries)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(ENTRIES, st.integers(0, 45))
def test_remove_by_tie(entries: list[tuple[float, int]], tie: int) -> None:
    out = filled(entries)
    there = tie < len(entries)
    assert heap.remove(out, BEGIN, len(entries), tie) == there
    left = [entry for entry in entries if entry[1] != tie]
    assert drained(out, len(left)) == sorted(left)


def test_four_siblings_share_a_cache_line() -> None:
    out = records(64, ENTRY)
    assert out.ctypes.data % 64 == 0
    assert np.dtype(ENTRY).itemsize == 16
    first_child = BEGIN + 1
    assert first_child % 4 == 0
