"""Start-time forecasts that keep what they promise: corrected by what came of earlier ones.

Roll-outs know only what they are told: run times are wrong together, arrivals come in waves. So
each forecast edge (half of the jobs start before p50, nine of ten before p90) is stretched by a
factor that is learnt on line: larger after a job that starts later than it was told, a little
smaller after one that does not. In the long run each edge is then missed as often as it says.

Whether an edge is kept is known when the job starts or when the edge has passed, whichever comes
first: nobody need wait for the long ones to learn of them.
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
from typing import Any, NamedTuple

from flyball.core.errors import BadInput

LEVELS = (0.5, 0.9)
"""The edges that are forecast."""
FLOOR_S = 60.0
"""Added before ratios are taken: below a minute differences do not matter."""
BOUNDS_S = (300.0, 1800.0, 7200.0, 28_800.0)
"""Forecasts are corrected by how far ahead they look: classes end at these."""
RATES = ((0.08, 0.04), (0.12, 0.06))
"""For each edge, log units by which outcomes move it: for all forecasts, and for those of one
class. Chosen on training workloads: slower ones follow too late, faster ones swing."""
LARGEST = 4.0
"""Log units an edge may be moved in all."""
KEPT = 1000
"""Latest outcomes that coverage is told of."""
VERSION = 1


class Edges(NamedTuple):
    """Seconds until the start that half of the jobs, and nine of ten, keep."""

    p50_s: float
    p90_s: float


@dataclass(slots=True)
class _Open:
    """A forecast whose outcome is not known for every edge."""

    at_s: float
    place: int
    edges: Edges
    known: list[bool] = field(default_factory=lambda: [False] * len(LEVELS))


class StartBands:
    """Corrects forecasts, and learns from what became of those it was told of.

    Attributes:
        common: for each edge, log units it is moved out by.
        own: the same for each class, on top of it.
        outcomes: of the latest forecasts, whether each edge was kept.
    """

    def __init__(self) -> None:
        self.common = [0.0] * len(LEVELS)
        self.own = [[0.0] * len(LEVELS) for _ in range(len(BOUNDS_S) + 1)]
        self.outcomes: list[deque[bool]] = [deque(maxlen=KEPT) for _ in LEVELS]
        self._open: dict[Hashable, _Open] = {}
        self._due: list[tuple[float, int, int, Hashable]] = []
        self._count = 0

    def correct(self, raw: Edges) -> Edges:
        """What to say where roll-outs say `raw`; a start at once stays one, and a wait a wait."""
        if raw.p90_s <= 0.0:
            return raw
        place = _place(raw)
        made = [
            max(
                each * math.exp(-LARGEST),
                (each + FLOOR_S) * math.exp(self._moved(place, at)) - FLOOR_S,
            )
            for at, each in enumerate(raw)
        ]
        return Edges(made[0], max(made))

    def _moved(self, place: int, at: int) -> float:
        return max(-LARGEST, min(LARGEST, self.common[at] + self.own[place][at]))

    def expect(self, job: Hashable, raw: Edges, now_s: float) -> Edges:
        """The same of a job whose start will be told; only the first forecast of each counts."""
        edges = self.correct(raw)
        if raw.p90_s > 0.0 and job not in self._open:
            self._open[job] = _Open(now_s, _place(raw), edges)
            for at, edge_s in enumerate(edges):
                self._count += 1
                heapq.heappush(self._due, (now_s + edge_s, self._count, at, job))
        return edges

    def advance(self, now_s: float) -> None:
        """Time has passed: whose edge has passed too?"""
        while self._due and self._due[0][0] < now_s:
            _, _, at, job = heapq.heappop(self._due)
            found = self._open.get(job)
            if found is not None and not found.known[at]:
                self._learn(found, at, kept=False)

    def started(self, job: Hashable, start_s: float) -> None:
        """It has started."""
        self.advance(start_s)
        found = self._open.pop(job, None)
        if found is not None:
            for at, edge_s in enumerate(found.edges):
                if not found.known[at]:
                    self._learn(found, at, kept=start_s - found.at_s <= edge_s)

    def forget(self, job: Hashable) -> None:
        """It will never start: it was cancelled."""
        self._open.pop(job, None)

    def _learn(self, found: _Open, at: int, kept: bool) -> None:
        found.known[at] = True
        self.outcomes[at].append(kept)
        push = (not kept) - (1.0 - LEVELS[at])
        common, own = RATES[at]
        self.common[at] = _clipped(self.common[at] + common * push)
        mine = self.own[found.place]
        mine[at] = _clipped(mine[at] + own * push)

    def coverage(self) -> list[float]:
        """For each edge, the part of the latest forecasts that kept it; NaN = none yet."""
        return [sum(each) / len(each) if each else math.nan for each in self.outcomes]

    @property
    def waiting(self) -> int:
        """Jobs that were forecast and have not started."""
        return len(self._open)

    # Files -----------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Plain values; forecasts without an outcome are not in it."""
        kept = [[int(one) for one in each] for each in self.outcomes]
        return {"version": VERSION, "common": self.common, "own": self.own, "outcomes": kept}

    @classmethod
    def of(cls, values: Any) -> StartBands:
        """What `as_dict` gave.

        Raises:
            BadInput: something else.
        """
        made = cls()
        try:
            if values["version"] != VERSION:
                raise ValueError(values["version"])
            made.common = _numbers(values["common"], len(LEVELS))
            own = [_numbers(each, len(LEVELS)) for each in values["own"]]
            if len(own) != len(made.own):
                raise ValueError(len(own))
            made.own = own
            for mine, kept in zip(made.outcomes, values["outcomes"], strict=True):
                mine.extend(bool(each) for each in kept)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"no correction of start times ({error})", "remove the file") from None
        return made

    def save(self, path: Path) -> None:
        """Write it down, whole or not at all."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self.as_dict()), "utf-8")
        os.replace(temporary, path)

    @classmethod
    def load(cls, path: Path) -> StartBands:
        """What `save` wrote; of a file that is none, a blank one: it is learnt again."""
        try:
            return cls.of(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, BadInput):
            return cls()


def _place(raw: Edges) -> int:
    return sum(raw.p50_s > bound_s for bound_s in BOUNDS_S)


def _clipped(value: float) -> float:
    return max(-LARGEST, min(LARGEST, value))


def _numbers(values: Iterable[Any], count: int) -> list[float]:
    made = [float(each) for each in values]
    if len(made) != count or not all(map(math.isfinite, made)):
        raise ValueError(f"{count} numbers wanted")
    return made
