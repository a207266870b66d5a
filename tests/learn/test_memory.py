"""Prioritised n-step replay: rows against hand-worked ones, draws against their probabilities."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.learn.memory import LEAST_PRIORITY, Memory


def _add(memory: Memory, environment: int, at: int, reward: float, is_last: bool = False) -> None:
    memory.add(
        environment, {"x": np.array([at])}, {"a": at}, reward, {"x": np.array([at + 1])}, is_last
    )


def test_a_row_is_the_next_epochs_in_one() -> None:
    memory = Memory(10, 1, steps=3, discount=0.5, alpha=1.0)
    for at, reward in enumerate((1.0, 2.0, 4.0, 8.0)):
        _add(memory, 0, at, reward, is_last=at == 3)
    assert memory.count == 4
    memory.set_errors(np.arange(4), np.ones(4))
    batch = memory.draw(4, 1.0, np.random.default_rng(0))
    assert batch.rows.tolist() == [0, 1, 2, 3]
    assert batch.seen["x"][:, 0].tolist() == [0, 1, 2, 3] == batch.chosen["a"].tolist()
    assert batch.later["x"][:, 0].tolist() == [3, 4, 4, 4]  # the last rows end with the episode
    assert batch.returns.tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4, 8]
    assert batch.discounts.tolist() == [0.125, 0, 0, 0]


def test_environments_do_not_mix() -> None:
    memory = Memory(10, 2, steps=2, discount=1.0, alpha=1.0)
    for at in range(3):
        _add(memory, 0, at, 1.0)
        _add(memory, 1, 100 + at, 10.0)
    batch = memory.draw(64, 1.0, np.random.default_rng(0))
    of_first = batch.seen["x"][:, 0] < 100
    assert set(batch.returns[of_first]) == {2.0} and set(batch.returns[~of_first]) == {20.0}


def test_what_is_added_is_copied() -> None:
    memory, seen = Memory(4, 1, steps=1, discount=1.0, alpha=1.0), np.array([1.0])
    memory.add(0, {"x": seen}, {"a": 0}, 0.0, {"x": seen}, True)
    seen[0] = 7.0
    assert memory.draw(1, 1.0, np.random.default_rng(0)).seen["x"][0, 0] == 1.0


def test_large_errors_are_drawn_more_often_and_count_less() -> None:
    memory = Memory(4, 1, steps=1, discount=1.0, alpha=1.0)
    for at in range(4):
        _add(memory, 0, at, 0.0, True)
    memory.set_errors(np.arange(4), np.array([0.0, 1.0, 2.0, -5.0]))
    batch = memory.draw(8000, 1.0, np.random.default_rng(0))
    part = np.bincount(batch.rows, minlength=4) / 8000
    chances = (np.array([0.0, 1.0, 2.0, 5.0]) + LEAST_PRIORITY) / (8.0 + 4 * LEAST_PRIORITY)
    assert np.allclose(part, chances, atol=2e-3)
    by_row = {int(row): weight for row, weight in zip(batch.rows, batch.weights, strict=True)}
    assert np.isclose(by_row[3] / by_row[1], chances[1] / chances[3])
    assert batch.weights.max() == 1.0


@settings(deadline=None)
@given(
    st.integers(1, 12), st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=40)
)  # fmt: skip
def test_no_row_crosses_the_end_of_an_episode(size: int, steps: int, ends: list[bool]) -> None:
    memory = Memory(size, 1, steps=steps, discount=1.0, alpha=0.6)
    episodes = np.cumsum([0, *ends])[:-1]
    for at, is_last in enumerate(ends):
        _add(memory, 0, at, 1.0, is_last)
    if not memory.count:
        return
    batch = memory.draw(50, 0.5, np.random.default_rng(0))
    assert memory.count <= size
    for seen, later, total, discount in zip(
        batch.seen["x"][:, 0], batch.later["x"][:, 0], batch.returns, batch.discounts, strict=True
    ):
        assert episodes[seen] == episodes[later - 1]
        assert total == later - seen <= steps
        assert discount == (0.0 if ends[later - 1] else 1.0)
