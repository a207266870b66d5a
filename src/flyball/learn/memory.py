"""Prioritised n-step replay: what happened, drawn more often where the value was far off.

A row is `steps` epochs in one: what was seen, what was chosen, the discounted sum of the rewards
since, what was seen then, and by how much the value of that is discounted (0 after the end of an
episode). Row i is drawn with probability priority_i ** alpha / sum, and corrected by the weight
(rows * probability) ** -beta, scaled so that the largest of a draw is 1 (Schaul et al. 2016).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from flyball.core.results import Floats, Ints
from flyball.learn.sum_tree import SumTree

Arrays = dict[str, npt.NDArray[Any]]
LEAST_PRIORITY = 1e-3
"""Added to every error, so that no row is forgotten."""


@dataclass
class Batch:
    """Rows that were drawn.

    Attributes:
        rows: their numbers, for `set_errors`.
        seen, later: observations at the begin and at the end of each row, by name.
        chosen: actions, by name.
        returns: discounted sum of the rewards in between.
        discounts: of the value at the end; 0 = the episode was over.
        weights: importance weights, at most 1.
    """

    rows: Ints
    seen: Arrays
    later: Arrays
    chosen: Arrays
    returns: Floats
    discounts: Floats
    weights: Floats


@dataclass
class _Step:
    seen: Arrays
    chosen: Arrays
    reward: float


class Memory:
    """Holds the last `size` rows of several environments that are stepped side by side.

    Args:
        size: rows; the oldest are overwritten.
        environments: stepped side by side.
        steps: epochs in a row; fewer at the end of an episode.
        discount: of a reward for each epoch that it comes later.
        alpha: 0 = all rows are drawn alike, 1 = in proportion to their priority.
    """

    def __init__(
        self, size: int, environments: int, steps: int, discount: float, alpha: float
    ) -> None:
        self.size, self.steps, self.discount, self.alpha = size, steps, discount, alpha
        self.count = 0
        self._next = 0
        self._largest = 1.0
        self._tree = SumTree(size)
        self._columns: dict[str, Arrays] = {}
        self._returns, self._discounts = np.zeros(size), np.zeros(size)
        self._open: list[deque[_Step]] = [deque() for _ in range(environments)]

    def add(
        self, environment: int, seen: Mapping[str, Any], chosen: Mapping[str, Any], reward: float,
        later: Mapping[str, Any], is_last: bool,
    ) -> None:  # fmt: skip
        """Add one epoch of an environment; rows that are complete by now become available.

        Args:
            later: the observation after the epoch.
            is_last: whether the episode ended with it.
        """
        pending = self._open[environment]
        pending.append(_Step(_arrays(seen), _arrays(chosen), reward))
        if is_last:
            while pending:
                self._close(pending, later, 0.0)
        elif len(pending) == self.steps:
            self._close(pending, later, self.discount**self.steps)

    def draw(self, count: int, beta: float, rng: np.random.Generator) -> Batch:
        """Draw rows: one from each of `count` equal parts of the sum of all priorities."""
        targets = (np.arange(count) + rng.random(count)) * (self._tree.total / count)
        rows = self._tree.find(targets)
        chances = self._tree.weights(rows) / self._tree.total
        weights = (self.count * chances) ** -beta
        seen, later, chosen = (
            {name: values[rows] for name, values in self._columns[part].items()}
            for part in ("seen", "later", "chosen")
        )
        return Batch(
            rows, seen, later, chosen, returns=self._returns[rows],
            discounts=self._discounts[rows], weights=weights / weights.max(),
        )  # fmt: skip

    def set_errors(self, rows: Ints, errors: Floats) -> None:
        """Set the priorities of rows by how far off their values were."""
        priorities = np.abs(errors) + LEAST_PRIORITY
        self._largest = max(self._largest, float(priorities.max()))
        self._tree.set(rows, priorities**self.alpha)

    # Keeping ------------------------------------------------------------------------------

    def save(self) -> tuple[Arrays, dict[str, float]]:
        """Return all rows and their priorities. No episode may be under way."""
        assert not any(self._open), "an episode is under way"
        kept = {
            f"{part}/{name}": values[: self.count]
            for part, columns in self._columns.items()
            for name, values in columns.items()
        }
        rows = np.arange(self.count)
        kept |= {"returns": self._returns[rows], "discounts": self._discounts[rows]}
        kept["priorities"] = self._tree.weights(rows)
        counts = {"count": self.count, "next": self._next, "largest": self._largest}
        return kept, counts

    def restore(self, kept: Mapping[str, npt.NDArray[Any]], counts: Mapping[str, float]) -> None:
        """Take up rows that were saved."""
        self.count, self._next = int(counts["count"]), int(counts["next"])
        self._largest = float(counts["largest"])
        for key, values in kept.items():
            part, _, name = key.partition("/")
            if name:
                column = np.zeros((self.size, *values.shape[1:]), values.dtype)
                column[: self.count] = values
                self._columns.setdefault(part, {})[name] = column
        self._returns[: self.count] = kept["returns"]
        self._discounts[: self.count] = kept["discounts"]
        self._tree.set(np.arange(self.count), kept["priorities"])

    # Inside -------------------------------------------------------------------------------

    def _close(self, pending: deque[_Step], later: Mapping[str, Any], discount: float) -> None:
        """Make a row of the epochs from the first pending one on, and forget that one."""
        total = 0.0
        for step in reversed(pending):
            total = step.reward + self.discount * total
        first, row = pending.popleft(), self._next
        for part, values in (("seen", first.seen), ("later", later), ("chosen", first.chosen)):
            self._write(part, row, values)
        self._returns[row], self._discounts[row] = total, discount
        self._tree.set(np.array([row]), np.array([self._largest**self.alpha]))
        self._next = (row + 1) % self.size
        self.count = min(self.count + 1, self.size)

    def _write(self, part: str, row: int, values: Mapping[str, Any]) -> None:
        if part not in self._columns:
            arrays = _arrays(values)
            self._columns[part] = {
                name: np.zeros((self.size, *array.shape), array.dtype)
                for name, array in arrays.items()
            }
        for name, column in self._columns[part].items():
            column[row] = values[name]


def _arrays(values: Mapping[str, Any]) -> Arrays:
    """Return copies of the values: an environment may write into its own again."""
    return {name: np.array(value) for name, value in values.items()}
