"""The index of nodes against a plain dictionary, over several words of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import config

from flyball.core.records import POOL, records
from flyball.schedule import index

pytestmark = [
    pytest.mark.nojit,
    pytest.mark.skipif(
        not config.DISABLE_JIT, reason="inner kernel functions run only with NUMBA_DISABLE_JIT=1"
    ),
]

NODES = 64 * 64 + 130
"""More than a summary word has bits for."""
CAPACITY = 2


def empty() -> tuple[Any, Any]:
    """An index without nodes, and its pool; another pool's part lies before it."""
    pool = records(1, POOL)[0]
    pool.nodes, pool.capacity, pool.words, pool.index = NODES, CAPACITY, (NODES + 63) // 64, 5
    size = index.index_size(int(pool.words), CAPACITY)
    return np.zeros(5 + size, np.uint64), pool


NODE = st.sampled_from((0, 1, 63, 64, 65, 4095, 4096, 4097, NODES - 1)) | st.integers(0, NODES - 1)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.dictionaries(NODE, st.integers(0, CAPACITY), max_size=20), st.lists(NODE, max_size=10))
def test_finds_the_lowest_and_the_next(free_of: dict[int, int], gone: list[int]) -> None:
    words, pool = empty()
    for node, free in free_of.items():
        index.insert(words, pool, free, node)
    for node in set(gone) & set(free_of):
        index.discard(words, pool, free_of.pop(node), node)
    for free in range(CAPACITY + 1):
        nodes = sorted(node for node, count in free_of.items() if count == free)
        assert int(words[index.base_of(pool, free)]) == len(nodes)
        assert index.lowest(words, pool, free) == (nodes[0] if nodes else -1)
        visited, at = [], -1
        while (at := index.next_after(words, pool, free, at)) >= 0:
            visited.append(at)
        assert visited == nodes
    assert not words[:5].any()


def test_what_is_taken_out_leaves_nothing_behind() -> None:
    words, pool = empty()
    for node in (0, 64, NODES - 1):
        index.insert(words, pool, 1, node)
    for node in (64, 0, NODES - 1):
        index.discard(words, pool, 1, node)
    assert not words.any()
    assert index.next_after(words, pool, 1, NODES - 1) == -1


def test_sizes() -> None:
    assert index.summary_words(64) == 1
    assert index.summary_words(65) == 2
    assert index.index_size(65, 8) == 1 + 9 * (1 + 2 + 65)
