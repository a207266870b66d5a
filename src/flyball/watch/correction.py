"""Decides whether forecasts are corrected by earlier outcomes: only where that has paid.

`StartBands` learns from outcomes as they come, which suits waits of minutes to days. Where many
forecasts are open at a time and waits are short, it overshoots. So both forecasts of each job,
before and after correction, are kept until it starts, and the one with the smaller loss so far is
shown.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from flyball.control.ask.start_bands import LEVELS, Edges, StartBands

LEAST_OUTCOMES = 30
"""Number of starts before a correction is used at all."""
KEPT = 300
"""Number of latest starts that losses and coverage are computed over."""


class Outcome(NamedTuple):
    """Holds the losses of one job's forecasts, and whether the edges that were shown held."""

    raw_loss_s: float
    corrected_loss_s: float
    held: tuple[bool, ...]


class _Open(NamedTuple):
    at_s: float
    raw: Edges
    corrected: Edges
    shown: Edges


class Correction:
    """Follows forecasts and their outcomes."""

    def __init__(self) -> None:
        self._bands = StartBands()
        self._open: dict[int, _Open] = {}
        self._outcomes: deque[Outcome] = deque(maxlen=KEPT)

    @property
    def helps(self) -> bool:
        """Return whether corrected forecasts were better so far."""
        corrected_s = sum(outcome.corrected_loss_s for outcome in self._outcomes)
        raw_s = sum(outcome.raw_loss_s for outcome in self._outcomes)
        return len(self._outcomes) >= LEAST_OUTCOMES and corrected_s < raw_s

    @property
    def bands(self) -> StartBands:
        """Return the correction to apply: the learnt one, or one that changes nothing."""
        return self._bands if self.helps else StartBands()

    def show(self, job: int, raw: Edges, now_s: float, teaches: bool) -> Edges:
        """Return the forecast of a job to show; its first one is judged when it starts.

        Args:
            teaches: whether its outcome says something about later forecasts.
        """
        corrected = self._bands.correct(raw)
        if teaches:
            corrected = self._bands.expect(job, raw, now_s)
        shown = corrected if self.helps else raw
        if raw.p90_s > 0.0:
            self._open.setdefault(job, _Open(now_s, raw, corrected, shown))
        return shown

    def started(self, job: int, start_s: float) -> None:
        """Judge the forecast of a job that started."""
        self._bands.started(job, start_s)
        forecast = self._open.pop(job, None)
        if forecast is None:
            return
        wait_s = max(0.0, start_s - forecast.at_s)
        held = tuple(wait_s <= edge_s for edge_s in forecast.shown)
        raw_s, corrected_s = loss_s(forecast.raw, wait_s), loss_s(forecast.corrected, wait_s)
        self._outcomes.append(Outcome(raw_s, corrected_s, held))

    def forget(self, job: int) -> None:
        """Drop the forecast of a job that was cancelled."""
        self._bands.forget(job)
        self._open.pop(job, None)

    def advance(self, now_s: float) -> None:
        """Let edges that have passed count as missed."""
        self._bands.advance(now_s)

    def coverage(self) -> list[float]:
        """Return, for each edge, the part of the forecasts shown in which it held; NaN = none."""
        if not self._outcomes:
            return [math.nan] * len(LEVELS)
        rows = zip(*(outcome.held for outcome in self._outcomes), strict=True)
        return [sum(row) / len(row) for row in rows]


def loss_s(edges: Edges, wait_s: float) -> float:
    """Return the sum of the pinball losses of the edges."""
    total_s = 0.0
    for level, edge_s in zip(LEVELS, edges, strict=True):
        late_s = wait_s - edge_s
        total_s += max(level * late_s, (level - 1.0) * late_s)
    return total_s
