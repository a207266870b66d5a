"""Corrects forecasts by earlier outcomes: each edge on its own, and only where that has paid.

The ratio of a wait to its forecast edge varies less than the wait. So an edge is multiplied by a
quantile of the latest ratios: half of them lie below that of p50, nine of ten below that of p90. A
job that waits beyond its edge counts as it stands, so that long waits need not end before they are
learnt from. Both forecasts of each job, before and after correction, are kept until it starts; each
edge is shown in the form that had the smaller loss so far.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from flyball.control.ask.start_bands import LEVELS, Edges

FLOOR_S = 30.0
"""Added before ratios are taken: differences below it do not matter."""
LEAST_OUTCOMES = 20
"""Number of starts before a correction is learnt, and of judged ones before it is used."""
KEPT_RATIOS = 200
"""Number of latest starts that a correction rests on."""
APPLIED = 0.7
"""Part of the correction that is applied, in log units: the next jobs are not just like the last.
This and the numbers above were chosen on two runs of 300 starts; others judge them."""
KEPT = 300
"""Number of latest starts that losses and coverage are computed over."""


class Shift(NamedTuple):
    """Holds the factor of each edge."""

    p50: float = 1.0
    p90: float = 1.0

    def correct(self, raw: Edges) -> Edges:
        """Return the corrected edges of `raw`; an immediate start stays one."""
        if raw.p90_s <= 0.0:
            return raw
        moved = [
            max(0.0, (edge_s + FLOOR_S) * factor - FLOOR_S)
            for edge_s, factor in zip(raw, self, strict=True)
        ]
        return Edges(moved[0], max(moved))


class Outcome(NamedTuple):
    """Holds the losses of each edge of a job's forecasts, and whether those shown held."""

    raw_s: tuple[float, ...]
    corrected_s: tuple[float, ...]
    held: tuple[bool, ...]


class _Open(NamedTuple):
    at_s: float
    raw: Edges
    corrected: Edges
    shown: Edges
    teaches: bool


class Correction:
    """Follows forecasts and their outcomes.

    Attributes:
        learnt: the correction that the latest outcomes call for.
    """

    def __init__(self) -> None:
        self.learnt = Shift()
        self._ratios: deque[tuple[float, ...]] = deque(maxlen=KEPT_RATIOS)
        self._open: dict[int, _Open] = {}
        self._outcomes: deque[Outcome] = deque(maxlen=KEPT)

    @property
    def bands(self) -> Shift:
        """Return the correction to apply: of each edge the learnt one if it had less loss."""
        if len(self._outcomes) < LEAST_OUTCOMES:
            return Shift()
        factors = []
        for at, factor in enumerate(self.learnt):
            raw_s = sum(outcome.raw_s[at] for outcome in self._outcomes)
            corrected_s = sum(outcome.corrected_s[at] for outcome in self._outcomes)
            factors.append(factor if corrected_s < raw_s else 1.0)
        return Shift(*factors)

    def show(self, job: int, raw: Edges, now_s: float, teaches: bool) -> Edges:
        """Return the forecast of a job to show; its first one is judged when it starts.

        Args:
            teaches: whether its outcome says something about later forecasts.
        """
        shown = self.bands.correct(raw)
        if raw.p90_s > 0.0 and job not in self._open:
            corrected = self.learnt.correct(raw)
            self._open[job] = _Open(now_s, raw, corrected, shown, teaches)
        return shown

    def started(self, job: int, start_s: float) -> None:
        """Judge the forecast of a job that started."""
        forecast = self._open.pop(job, None)
        if forecast is None:
            return
        wait_s = max(0.0, start_s - forecast.at_s)
        held = tuple(wait_s <= edge_s for edge_s in forecast.shown)
        raw_s, corrected_s = losses_s(forecast.raw, wait_s), losses_s(forecast.corrected, wait_s)
        self._outcomes.append(Outcome(raw_s, corrected_s, held))
        if forecast.teaches:
            self._ratios.append(ratios(forecast.raw, wait_s))

    def forget(self, job: int) -> None:
        """Drop the forecast of a job that was cancelled."""
        self._open.pop(job, None)

    def advance(self, now_s: float) -> None:
        """Learn from the starts so far, and from jobs that still wait beyond an edge."""
        rows = [*self._ratios]
        for forecast in self._open.values():
            waited_s = now_s - forecast.at_s
            if forecast.teaches and waited_s > forecast.raw.p50_s:
                rows.append(ratios(forecast.raw, waited_s))
        if len(rows) < LEAST_OUTCOMES:
            return
        over = len(rows) - len(self._ratios)
        columns = zip(*rows, strict=True)
        self.learnt = Shift(
            *(
                quantile(known(column, over), level) ** APPLIED
                for column, level in zip(columns, LEVELS, strict=True)
            )
        )

    def coverage(self) -> list[float]:
        """Return, for each edge, the part of the forecasts shown in which it held; NaN = none."""
        if not self._outcomes:
            return [math.nan] * len(LEVELS)
        rows = zip(*(outcome.held for outcome in self._outcomes), strict=True)
        return [sum(row) / len(row) for row in rows]


def ratios(raw: Edges, wait_s: float) -> tuple[float, ...]:
    """Return the ratio of a wait to each edge."""
    return tuple((wait_s + FLOOR_S) / (edge_s + FLOOR_S) for edge_s in raw)


def known(column: Sequence[float], waiting: int) -> list[float]:
    """Return the ratios of an edge without those of waiting jobs, the last ones, still below it."""
    first = len(column) - waiting
    return [ratio for at, ratio in enumerate(column) if at < first or ratio > 1.0]


def quantile(values: Sequence[float], level: float) -> float:
    """Return the value that a part of the values does not exceed; 1 if there is none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, math.ceil(level * len(ranked)) - 1)] if ranked else 1.0


def losses_s(edges: Edges, wait_s: float) -> tuple[float, ...]:
    """Return the pinball loss of each edge."""
    late_s = [wait_s - edge_s for edge_s in edges]
    pairs = zip(LEVELS, late_s, strict=True)
    return tuple(max(level * late, (level - 1.0) * late) for level, late in pairs)
