"""Forecasts that were shown earlier, and what happened since, for the charts of all viewers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

KEPT = 3
"""Earlier forecasts that are drawn behind the present one."""
APART_S = 600.0
"""Least time between two of them."""
LEAST_S = 10.0
"""Least time between two observations."""
SEEN = 720
"""Observations that are kept of each series."""


class PastForecasts:
    """Keeps a few earlier forecasts of each series, and its observations."""

    def __init__(self) -> None:
        self._past: dict[str, deque[Mapping[str, Any]]] = {}
        self._latest: dict[str, Mapping[str, Any]] = {}
        self._seen: dict[str, deque[tuple[float, float]]] = {}

    def take(self, loads: Sequence[Mapping[str, Any]]) -> None:
        """Keep what is new of the present forecasts."""
        for row in loads:
            name = row["series"]
            if self._latest.get(name, {}).get("time") == row["time"]:
                continue
            past = self._past.setdefault(name, deque(maxlen=KEPT))
            if not past or row["time"] - past[-1]["time"] >= APART_S:
                past.append(row)
            self._latest[name] = row

    def observe(self, name: str, time_s: float, value: float) -> None:
        """Keep what a series is now."""
        seen = self._seen.setdefault(name, deque(maxlen=SEEN))
        if not seen or time_s - seen[-1][0] >= LEAST_S:
            seen.append((time_s, value))

    def of(self, name: str) -> list[Mapping[str, Any]]:
        """Return earlier forecasts of a series, the oldest first."""
        latest = self._latest.get(name, {}).get("time")
        return [row for row in self._past.get(name, ()) if row["time"] != latest]

    def seen(self, name: str) -> list[tuple[float, float]]:
        """Return what happened: times in seconds since 1970, and values."""
        return list(self._seen.get(name, ()))
