"""Calibrates start-time forecasts with the outcomes of earlier ones.

Roll-outs miss what their inputs miss: errors of run times are correlated, arrivals come in bursts.
So each edge of a forecast (half of the jobs start before p50, nine of ten before p90) is scaled by
a factor that is learnt online: larger after a job that starts later than forecast, slightly smaller
after one that does not. In the long run each edge is then missed as often as its level states.

Whether an edge held is decided when the job starts or when the edge has passed, whichever comes
first, so long waits need not end before they are learnt from.
"""

from __future__ import annotations

import heapq
import json
import math
import os
from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from flyball.core.errors import BadInput

LEVELS = (0.5, 0.9)
"""Quantiles that are forecast."""
FLOOR_S = 60.0
"""Added before ratios are taken: differences below a minute do not matter."""
BOUNDS_S = (300.0, 1800.0, 7200.0, 28_800.0)
"""Upper bounds of the classes of horizon; each class is corrected separately."""
RATES = ((0.08, 0.04), (0.12, 0.06))
"""Learning rates of each edge in log units: for all forecasts, and for those of one class.
Chosen on training workloads: lower rates react too late, higher ones oscillate."""
MAX_SHIFT = 4.0
"""Maximum shift of an edge in log units."""
KEPT = 1000
"""Number of latest outcomes that coverage is computed over."""
VERSION = 1


SCORE_90 = 1.2815515655446004
"""Normal score of the quantile 0.9."""
CALIBRATED = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels at which calibration is reported."""


class Edges(NamedTuple):
    """Holds the seconds within which half of the jobs, and nine of ten, start."""

    p50_s: float
    p90_s: float


class Corrects(Protocol):
    """Corrects a forecast by earlier outcomes."""

    def correct(self, raw: Edges) -> Edges: ...


@dataclass(slots=True)
class _OpenForecast:
    """Holds a forecast with an edge whose outcome is still open."""

    at_s: float
    horizon_class: int
    edges: Edges
    decided: list[bool] = field(default_factory=lambda: [False] * len(LEVELS))


class StartBands:
    """Corrects forecasts, and learns from their outcomes.

    Attributes:
        common: the shift of each edge in log units.
        by_class: the same for each class of horizon, added to it.
        outcomes: for each edge, whether it held in the latest forecasts.
        ranks: for the latest jobs that started, the level of their forecast at which they did.
    """

    def __init__(self) -> None:
        self.common = [0.0] * len(LEVELS)
        self.by_class = [[0.0] * len(LEVELS) for _ in range(len(BOUNDS_S) + 1)]
        self.outcomes: list[deque[bool]] = [deque(maxlen=KEPT) for _ in LEVELS]
        self.ranks: deque[float] = deque(maxlen=KEPT)
        self._open: dict[Hashable, _OpenForecast] = {}
        self._due: list[tuple[float, int, int, Hashable]] = []
        self._count = 0

    def correct(self, raw: Edges) -> Edges:
        """Return the corrected edges of `raw`; an immediate start stays one, and so does a wait."""
        if raw.p90_s <= 0.0:
            return raw
        horizon_class = _class_of(raw)
        moved = [
            max(
                edge_s * math.exp(-MAX_SHIFT),
                (edge_s + FLOOR_S) * math.exp(self._shift(horizon_class, at)) - FLOOR_S,
            )
            for at, edge_s in enumerate(raw)
        ]
        return Edges(moved[0], max(moved))

    def _shift(self, horizon_class: int, at: int) -> float:
        return max(-MAX_SHIFT, min(MAX_SHIFT, self.common[at] + self.by_class[horizon_class][at]))

    def expect(self, job: Hashable, raw: Edges, now_s: float) -> Edges:
        """Correct the forecast of a job whose start will be observed; only its first one counts."""
        edges = self.correct(raw)
        if raw.p90_s > 0.0 and job not in self._open:
            self._open[job] = _OpenForecast(now_s, _class_of(raw), edges)
            for at, edge_s in enumerate(edges):
                self._count += 1
                heapq.heappush(self._due, (now_s + edge_s, self._count, at, job))
        return edges

    def advance(self, now_s: float) -> None:
        """Count the edges that have passed by now as missed."""
        while self._due and self._due[0][0] < now_s:
            _, _, at, job = heapq.heappop(self._due)
            forecast = self._open.get(job)
            if forecast is not None and not forecast.decided[at]:
                self._learn(forecast, at, kept=False)

    def started(self, job: Hashable, start_s: float) -> None:
        """Learn from the start of a job."""
        self.advance(start_s)
        forecast = self._open.pop(job, None)
        if forecast is not None:
            self.ranks.append(round(rank_of(forecast.edges, start_s - forecast.at_s), 4))
            for at, edge_s in enumerate(forecast.edges):
                if not forecast.decided[at]:
                    self._learn(forecast, at, kept=start_s - forecast.at_s <= edge_s)

    def forget(self, job: Hashable) -> None:
        """Drop the forecast of a job that was cancelled."""
        self._open.pop(job, None)

    def _learn(self, forecast: _OpenForecast, at: int, kept: bool) -> None:
        forecast.decided[at] = True
        self.outcomes[at].append(kept)
        push = (not kept) - (1.0 - LEVELS[at])
        common, by_class = RATES[at]
        self.common[at] = _clipped(self.common[at] + common * push)
        mine = self.by_class[forecast.horizon_class]
        mine[at] = _clipped(mine[at] + by_class * push)

    def coverage(self) -> list[float]:
        """Return, for each edge, the share of the latest forecasts in which it held; NaN = none."""
        return [
            sum(outcomes) / len(outcomes) if outcomes else math.nan for outcomes in self.outcomes
        ]

    def calibration(self, now_s: float) -> list[tuple[float, float, int]]:
        """Return level, share of the forecasts in which it held, and their number.

        Levels between and beyond the two edges are those of the lognormal distribution through
        both. A job that waits counts as soon as it has waited longer than a level promised.
        """
        open_ranks = [rank_of(one.edges, now_s - one.at_s) for one in self._open.values()]
        rows = []
        for level in CALIBRATED:
            overdue = sum(rank > level for rank in open_ranks)
            count = len(self.ranks) + overdue
            if count:
                held = sum(rank <= level for rank in self.ranks)
                rows.append((level, held / count, count))
        return rows

    @property
    def waiting(self) -> int:
        """Return the number of jobs that were forecast and have not started."""
        return len(self._open)

    # Files -----------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Return the state as JSON values, without open forecasts."""
        kept = [[int(outcome) for outcome in outcomes] for outcomes in self.outcomes]
        return {
            "version": VERSION, "common": self.common, "own": self.by_class, "outcomes": kept,
            "ranks": list(self.ranks),
        }  # fmt: skip

    @classmethod
    def of(cls, values: Any) -> StartBands:
        """Return the state from the result of `as_dict`.

        Raises:
            BadInput: the values are not such a result.
        """
        bands = cls()
        try:
            if values["version"] != VERSION:
                raise ValueError(values["version"])
            bands.common = _numbers(values["common"], len(LEVELS))
            by_class = [_numbers(row, len(LEVELS)) for row in values["own"]]
            if len(by_class) != len(bands.by_class):
                raise ValueError(len(by_class))
            bands.by_class = by_class
            for mine, kept in zip(bands.outcomes, values["outcomes"], strict=True):
                mine.extend(bool(outcome) for outcome in kept)
            ranks = values.get("ranks", [])  # not in files of an earlier version
            bands.ranks.extend(_numbers(ranks, len(ranks)))
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"no correction of start times ({error})", "remove the file") from None
        return bands

    def save(self, path: Path) -> None:
        """Write the state to a file atomically."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self.as_dict()), "utf-8")
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: Path) -> StartBands:
        """Return the state that `save` wrote; a blank one if the file cannot be read."""
        try:
            return cls.of(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, BadInput):
            return cls()


def rank_of(edges: Edges, wait_s: float) -> float:
    """Return the level at which a forecast places a wait, by the lognormal through its edges."""
    middle, upper = math.log(edges.p50_s + FLOOR_S), math.log(edges.p90_s + FLOOR_S)
    gap = math.log(max(0.0, wait_s) + FLOOR_S) - middle
    if upper <= middle:
        return 0.0 if gap <= 0.0 else 1.0
    return 0.5 * math.erfc(-gap / (upper - middle) * SCORE_90 / math.sqrt(2.0))


def _class_of(raw: Edges) -> int:
    return sum(raw.p50_s > bound_s for bound_s in BOUNDS_S)


def _clipped(value: float) -> float:
    return max(-MAX_SHIFT, min(MAX_SHIFT, value))


def _numbers(values: Iterable[Any], count: int) -> list[float]:
    numbers = [float(value) for value in values]
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise ValueError(f"expected {count} numbers")
    return numbers
