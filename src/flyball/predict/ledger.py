"""Losses of forecasters, and whether one is better by more than chance.

Forecasters are compared by the *differences* of their losses: a burst that all of them miss does
not show which is better. Outcomes less than a lead apart are correlated, so the differences are
summed over blocks of a lead, and the squares of these sums estimate the variance.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats


class Ledger:
    """Holds decayed losses of several forecasters, and the squares of their differences.

    Args:
        count: number of forecasters.
        keep: factor by which a loss decays at the next outcome.
        lead: number of outcomes in a block.
    """

    def __init__(self, count: int, keep: float, lead: int) -> None:
        self.sums, self._block = np.zeros(count), np.zeros(count)
        self._squares, self._apart = np.zeros(count), np.zeros((count, count))
        self._keep, self._lead, self._filled = keep, lead, 0

    def add(self, losses: Floats) -> None:
        """Add the loss of each forecaster at one outcome."""
        self.sums = self._keep * self.sums + losses
        self._block = self._keep * self._block + losses
        self._filled += 1
        if self._filled >= self._lead:
            keep, block = self._keep**self._lead, self._block
            self._squares = keep * self._squares + block**2
            self._apart = keep * self._apart + np.subtract.outer(block, block) ** 2
            self._block, self._filled = np.zeros(len(losses)), 0

    def judged(self, used: int) -> tuple[Floats, Floats]:
        """Return how much less each has lost than the one in use, and its standard error."""
        still_open = (self._block[used] - self._block) ** 2
        return self.sums[used] - self.sums, np.sqrt(self._apart[used] + still_open)

    def better(self, used: int, margin: float) -> int:
        """Return the forecaster to use from now on: the one in use while its loss is the least."""
        if self.sums[used] <= self.sums.min():
            return used
        return better(*self.judged(used), margin, used)

    def count(self, used: int) -> float:
        """Return the effective number of blocks behind the losses of the one in use.

        Errors that are 0 for a week and large for an hour are few, however long they took.
        """
        squares = float(self._squares[used] + self._block[used] ** 2)
        return float(self.sums[used]) ** 2 / squares if squares > 0.0 else 0.0


class Panel(Ledger):
    """Holds the losses on all series of a panel at one lead, together."""

    def __init__(self, count: int, keep: float, lead: int) -> None:
        super().__init__(count, keep, lead)
        self._now = np.zeros(count)

    def note(self, losses: Floats) -> None:
        """Add the losses of one series at this step."""
        self._now = self._now + losses

    def close(self) -> None:
        """End this step: the losses of all series are in."""
        self.add(self._now)
        self._now = np.zeros(len(self._now))


def better(gains: Floats, doubt: Floats, margin: float, used: int) -> int:
    """Return the one that gains most of those clearly better than the one in use, or that one."""
    clear = gains > margin * doubt
    return int(np.where(clear, gains, -np.inf).argmax()) if clear.any() else used
