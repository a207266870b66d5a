"""A sum tree: draws rows with probability proportional to their weights, in logarithmic time.

Leaf i holds the weight of row i; every other place holds the sum of the two below it. Parents are
always added up anew from their children, never changed by a difference, so rounding errors do not
accumulate however often weights change.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats, Ints


class SumTree:
    """Holds one weight, 0 or more, for each of `size` rows; all are 0 at first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.depth = max(0, (size - 1).bit_length())
        self._first_leaf = 1 << self.depth
        self._sums = np.zeros(2 * self._first_leaf)  # the root is at 1, place 0 is not used

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(self._sums[1])

    def weights(self, rows: Ints) -> Floats:
        """Return the weights of rows."""
        return np.asarray(self._sums[self._first_leaf + rows])

    def set(self, rows: Ints, weights: Floats) -> None:
        """Give rows new weights; of a row named twice the last weight counts."""
        rows = np.asarray(rows, np.int64)
        if not len(rows):
            return
        assert rows.min() >= 0 and rows.max() < self.size
        assert np.all(np.asarray(weights) >= 0), "a weight is negative or not a number"
        places = self._first_leaf + rows
        self._sums[places] = weights
        for _ in range(self.depth):
            places = np.unique(places >> 1)
            self._sums[places] = self._sums[2 * places] + self._sums[2 * places + 1]

    def find(self, targets: Floats) -> Ints:
        """Return, for each target in [0, total), the row at which the running sum exceeds it.

        A row without weight is never returned.
        """
        assert self.total > 0, "no row has a weight"
        rest = np.array(targets, float)
        places = np.ones(len(rest), np.int64)
        for _ in range(self.depth):
            left, right = self._sums[2 * places], self._sums[2 * places + 1]
            # Rounding may leave a target at the very end: it stays where there is weight.
            go_right = (rest >= left) & (right > 0)
            rest = np.where(go_right, rest - left, rest)
            places = 2 * places + go_right
        return places - self._first_leaf
