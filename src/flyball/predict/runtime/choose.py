"""Chooses the point of a prediction: the trees, the median of the latest like jobs, or their mean.

Where a tenant, a user or a program repeats the same job, the median of the latest ones is nearly
exact and trees blur it; where it does not, trees are far better. Which of them it is changes with
time, so each is scored on the jobs that ended, by owner. The median of the latest jobs is used
until another is clearly better, but within the quartiles of the trees: a job is rarely as long as
the latest ones if the trees think that unlikely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from flyball.predict.runtime.history import Key, keys_of
from flyball.predict.runtime.rows import Asked
from flyball.predict.runtime.trees import MIDDLE

SHARES = (1.0, 0.5, 0.0)
"""Candidate weights of the trees' point against the median of the latest jobs."""
RECENT_ONLY = SHARES.index(0.0)
HALF_LOSS = 0.25
"""Error, in log units, that costs half as much as the largest one. A loss that saturates prefers
what is right for most jobs to what is least wrong for the few that nothing predicts."""
MARGIN = 0.03
"""Part by which the loss of another share must be below that of the latest jobs alone."""
FORGET_ALL, FORGET_OWNER = 1.0 / 3000.0, 1.0 / 1000.0
"""Rates at which scores are forgotten, per job: of all owners together, and of one owner."""
PRIOR = 20.0
"""Number of jobs of an owner that weigh as much as the wider group it belongs to."""
MOST_OWNERS = 20_000
"""Maximum number of owners; those longest without an end are dropped."""


@dataclass(frozen=True, slots=True)
class RunTimeGuess:
    """Holds two points and an uncalibrated band, all logarithms of seconds.

    Attributes:
        trees: point of the trees, or of the stand-in for them while there are none.
        recent: median of the latest like jobs; NaN = none has ended.
        grown: whether there are trees.
    """

    trees: float
    recent: float
    quantiles: tuple[float, ...]
    grown: bool = True

    @property
    def quartiles(self) -> tuple[float, float]:
        """The quartiles; the point of the trees is between them."""
        low, high = self.quantiles[MIDDLE - 1], self.quantiles[MIDDLE + 1]
        return min(low, self.trees), max(high, self.trees)

    def point(self, share: float) -> float:
        """Return the mixed point."""
        return share * self.trees + (1.0 - share) * self.recent


def owners_of(asked: Asked) -> tuple[Key, ...]:
    """Return the owners whose jobs score a prediction: everyone, tenant, user, program."""
    keys = keys_of(asked)
    levels = (keys[level] for level in ("all", "tenant", "user", "name"))
    return tuple(key for key in levels if key is not None)


@dataclass
class PointChoice:
    """Keeps the score of each share by owner.

    Attributes:
        scores: by owner, with whether there were trees: decaying number of jobs, and the decaying
            sum of the loss of each of `SHARES`.
    """

    scores: dict[tuple[bool, Key], list[float]] = field(default_factory=dict)

    def share(self, guess: RunTimeGuess, owners: tuple[Key, ...]) -> float:
        """Return the share of the trees with the least loss so far; 0 until it is clearly less."""
        if math.isnan(guess.recent):
            return 1.0
        losses: list[float] | None = None
        for owner in owners:
            score = self.scores.get((guess.grown, owner))
            if score is None:
                continue
            if losses is None:
                losses = [total / score[0] for total in score[1:]]
                continue
            losses = [
                (total + PRIOR * wider) / (score[0] + PRIOR)
                for total, wider in zip(score[1:], losses, strict=True)
            ]
        if losses is None or min(losses) > losses[RECENT_ONLY] * (1.0 - MARGIN):
            return SHARES[RECENT_ONLY]
        return SHARES[losses.index(min(losses))]

    def point(self, guess: RunTimeGuess, owners: tuple[Key, ...]) -> float:
        """Return the point to predict."""
        if math.isnan(guess.recent):
            return guess.trees
        point = guess.point(self.share(guess, owners))
        if not guess.grown:
            return point
        low, high = guess.quartiles
        return min(max(point, low), high)

    def learn(self, guess: RunTimeGuess, owners: tuple[Key, ...], log_s: float) -> None:
        """Update the scores with an ended job."""
        if math.isnan(guess.recent):
            return
        errors = [abs(guess.point(share) - log_s) for share in SHARES]
        for owner in owners:
            keep = 1.0 - (FORGET_OWNER if owner else FORGET_ALL)
            before = self.scores.pop((guess.grown, owner), None) or [0.0] * (1 + len(SHARES))
            self.scores[guess.grown, owner] = [
                before[0] * keep + 1.0,
                *(
                    total * keep + error / (error + HALF_LOSS)
                    for total, error in zip(before[1:], errors, strict=True)
                ),
            ]
        while len(self.scores) > MOST_OWNERS:
            del self.scores[next(iter(self.scores))]

    # A model's file holds the scores of all owners together; the others come from the journal.

    def as_list(self) -> list[list[float]]:
        """Return the scores of all owners together: without trees, then with them."""
        return [self.scores.get((grown, ()), []) for grown in (False, True)]

    @classmethod
    def from_list(cls, rows: list[list[float]]) -> PointChoice:
        """Return what `as_list` gave."""
        scores = zip((False, True), rows, strict=True)
        return cls({(grown, ()): list(row) for grown, row in scores if row})
