"""The sum tree: against a plain list, under any order of changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.learn.sum_tree import SumTree

WEIGHTS = st.floats(0.0, 1e6, allow_subnormal=False)


@settings(deadline=None)
@given(st.integers(1, 40).flatmap(lambda size: st.tuples(
    st.just(size),
    st.lists(st.lists(st.tuples(st.integers(0, size - 1), WEIGHTS), max_size=8), max_size=12),
)), st.lists(st.floats(0.0, 1.0, exclude_max=True), max_size=20))  # fmt: skip
def test_it_holds_and_finds_what_a_plain_list_does(
    changes: tuple[int, list[list[tuple[int, float]]]], parts: list[float]
) -> None:
    size, batches = changes
    tree, plain = SumTree(size), np.zeros(size)
    for batch in batches:
        for row, weight in batch:
            plain[row] = weight
        tree.set(np.array([row for row, _ in batch], np.int64), np.array([w for _, w in batch]))
    assert tree.total == pytest.approx(plain.sum())
    assert np.array_equal(tree.weights(np.arange(size)), plain)
    if not plain.any():
        return
    targets = np.array(parts) * tree.total
    ends = np.cumsum(plain)
    for row, target in zip(tree.find(targets), targets, strict=True):
        assert plain[row] > 0
        slack = 1e-9 * ends[-1]
        assert ends[row] - plain[row] - slack <= target <= ends[row] + slack


def test_rows_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.array([1.0, 0.0, 3.0, 6.0, 0.0])
    tree = SumTree(5)
    tree.set(np.arange(5), weights)
    rows = tree.find((np.arange(1000) + 0.5) / 1000 * tree.total)
    assert np.bincount(rows, minlength=5).tolist() == [100, 0, 300, 600, 0]


def test_sums_do_not_drift() -> None:
    tree, rng = SumTree(100), np.random.default_rng(0)
    for _ in range(500):
        tree.set(rng.integers(0, 100, 10), 10.0 ** rng.uniform(-8, 8, 10))
    tree.set(np.arange(100), np.full(100, 0.5))
    assert tree.total == 50.0


def test_nothing_is_drawn_from_nothing() -> None:
    with pytest.raises(AssertionError, match="no row has a weight"):
        SumTree(4).find(np.array([0.0]))
    with pytest.raises(AssertionError, match="negative or not a number"):
        SumTree(4).set(np.array([0]), np.array([np.nan]))
