"""Rows that are equal fall into one group, in lexicographic order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyball.core import grouping
from flyball.core.grouping import group_rows

ROWS = st.lists(st.tuples(*[st.integers(-5, 5)] * 3), min_size=1, max_size=40)
WIDE = st.lists(st.tuples(*[st.integers(-(2**61), 2**61)] * 3), min_size=1, max_size=40)


def check(rows: list[tuple[int, ...]]) -> None:
    columns = np.array(rows, np.int64).T
    groups = group_rows(*columns)
    in_order = sorted(set(rows))
    assert [in_order[group] for group in groups.of_row] == rows
    assert [rows.index(row) for row in in_order] == groups.first.tolist()


@given(ROWS)
def test_groups_are_the_distinct_rows(rows: list[tuple[int, ...]]) -> None:
    check(rows)


@given(WIDE)
def test_values_too_far_apart_for_one_code(rows: list[tuple[int, ...]]) -> None:
    check(rows)


@given(ROWS)
def test_sorting_gives_what_the_table_gives(rows: list[tuple[int, ...]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping, "LARGEST_TABLE", 1)
        check(rows)
