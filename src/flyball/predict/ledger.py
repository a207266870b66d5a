"""Who has lost less, and whether that is more than chance.

Forecasters are judged by their *differences*: a burst that all of them miss says nothing about
which is better. Outcomes nearer than a lead are much alike, so the differences are summed over
blocks of a lead, and the squares of these sums say what chance does.
"""

from __future__ import annotations

import numpy as np

from flyball.core.results import Floats


class Ledger:
    """Losses of several forecasters, decayed, and how far apart they have been.

    Args:
        count: forecasters.
        keep: what is left of a loss at the next outcome.
        lead: outcomes in a block.
    """

    def __init__(self, count: int, keep: float, lead: int) -> None:
        self.sums, self._block = np.zeros(count), np.zeros(count)
        self._squares, self._apart = np.zeros(count), np.zeros((count, count))
        self._keep, self._lead, self._filled = keep, lead, 0

    def add(self, losses: Floats) -> None:
        self.sums = self._keep * self.sums + losses
        self._block = self._keep * self._block + losses
        self._filled += 1
        if self._filled >= self._lead:
            keep, block = self._keep**self._lead, self._block
            self._squares = keep * self._squares + block**2
            self._apart = keep * self._apart + np.subtract.outer(block, block) ** 2
            self._block, self._filled = np.zeros(len(losses)), 0

    def judged(self, used: int) -> tuple[Floats, Floats]:
        """How much less each has lost than the one in use, and the standard error of that."""
        still_open = (self._block[used] - self._block) ** 2
        return self.sums[used] - self.sums, np.sqrt(self._apart[used] + still_open)

    def better(self, used: int, margin: float) -> int:
        """The one to use from now on; nothing more is asked where the one in use is the best."""
        if self.sums[used] <= self.sums.min():
            return used
        return better(*self.judged(used), margin, used)

    def count(self, used: int) -> float:
        """Blocks that matter to the losses of the one in use.

        Errors that are nothing for a week and large for an hour are few however long they took.
        """
        squares = float(self._squares[used] + self._block[used] ** 2)
        return float(self.sums[used]) ** 2 / squares if squares > 0.0 else 0.0


class Panel(Ledger):
    """The losses on all series of a panel at one lead, together."""

    def __init__(self, count: int, keep: float, lead: int) -> None:
        super().__init__(count, keep, lead)
        self._now = np.zeros(count)

    def note(self, losses: Floats) -> None:
        """Of one series at this step."""
        self._now = self._now + losses

    def close(self) -> None:
        """All series have told theirs of this step."""
        self.add(self._now)
        self._now = np.zeros(len(self._now))


def better(gains: Floats, doubt: Floats, margin: float, used: int) -> int:
    """The one that gains most among those clearly better than the one in use, or that one."""
    clear = gains > margin * doubt
    return int(np.where(clear, gains, -np.inf).argmax()) if clear.any() else used
