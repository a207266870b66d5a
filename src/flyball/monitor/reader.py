"""Reads telemetry: the latest values, and series over any period that is kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flyball.core.results import Floats
from flyball.monitor import segments
from flyball.monitor.features import WINDOWS_S, Features, features, rate
from flyball.monitor.publish import FAST, LATEST, PER_S, TOTAL
from flyball.monitor.rates import FAMILIES
from flyball.monitor.spool import SEGMENT_S, SUFFIX, read_spool, spans
from flyball.monitor.states import states
from flyball.monitor.store import HOUR, HOUR_S, MINUTE


class Telemetry:
    """Reads what an agent wrote into its telemetry folder (`STATE/telemetry`).

    Attributes:
        damaged: files that could not be read and were skipped.
    """

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self.damaged: set[Path] = set()
        self._now = now

    def status(self) -> dict[str, Any]:
        """Return all that the agent published: time, values, and the state of each sensor.

        Empty if there was never an agent.
        """
        try:
            status: dict[str, Any] = json.loads((self.folder / LATEST).read_bytes())
        except (OSError, ValueError):
            return {}
        return status

    def age_s(self) -> float:
        """Return how long ago the agent last published; infinite if never."""
        try:
            return max(0.0, self._now() - os.stat(self.folder / LATEST).st_mtime)
        except OSError:
            return float("inf")

    def latest(self, max_age_s: float = 10.0) -> dict[str, float]:
        """Return the last value of each name, totals also as rates; empty if older than this."""
        if self.age_s() > max_age_s:
            return {}
        values: dict[str, float] = self.status().get("values", {})
        return values

    def names(self) -> list[str]:
        """Return every name with values in the last hour, and the rates of totals."""
        names: set[str] = set()
        for family in FAMILIES:
            folder = self.folder / family
            for path in spans(folder, SUFFIX).values():
                names.update(*(row.names for row in self._live(path)))
            for suffix in (MINUTE, HOUR):
                for path in list(spans(folder, suffix).values())[-SEGMENT_S:]:
                    names.update(self._try(path, segments.names_in, []))
        rates = {name.removesuffix(TOTAL) + PER_S for name in names if name.endswith(TOTAL)}
        return sorted(names | rates)

    def series(self, name: str, seconds: float) -> tuple[Floats, Floats]:
        """Return times (seconds since 1970) and values of the last `seconds`, oldest first.

        A name that ends in `_per_s` and is not stored is computed from its total.
        """
        since_s = self._last_s() - seconds
        times_s, values = self._kept(name, since_s)
        if len(times_s) == 0 and name.endswith(PER_S):
            return rate(*self._kept(name.removesuffix(PER_S) + TOTAL, since_s))
        return times_s, values

    def features(self, name: str, windows_s: Sequence[float] = WINDOWS_S) -> list[Features]:
        """Return mean, deviation, 95 % quantile, slope and burst of a series for each window."""
        return features(*self.series(name, max(windows_s)), windows_s)

    def states(self) -> dict[str, Any]:
        """Return whether the agent is alive, and the state of each of its sensors."""
        return states(self.status(), self.age_s())

    def ask_fast(self, seconds: float) -> None:
        """Request that the agent samples at the fastest rates for this long from now."""
        temporary = self.folder / f".{FAST}.{os.getpid()}"
        temporary.write_text(f"{seconds:g}")
        os.replace(temporary, self.folder / FAST)

    def _last_s(self) -> float:
        """Return the time of the last publication by the agent's clock, which never jumps."""
        return float(self.status().get("time_s", self._now()))

    def _kept(self, name: str, since_s: float) -> tuple[Floats, Floats]:
        parts = [part for family in FAMILIES for part in self._parts(family, name, since_s)]
        if not parts:
            return np.zeros(0), np.zeros(0)
        times_s = np.concatenate([part[0] for part in parts])
        values = np.concatenate([part[1] for part in parts])
        good = ~np.isnan(values) & (times_s >= since_s)
        # A spool that was just converted to a segment may be read as both.
        times_s, first = np.unique(np.round(times_s[good], 5), return_index=True)
        return times_s, values[good][first]

    def _parts(self, family: str, name: str, since_s: float) -> Iterator[tuple[Floats, Floats]]:
        folder = self.folder / family
        # Spools first: one that is converted meanwhile is then found as a segment.
        for start_s, path in spans(folder, SUFFIX).items():
            if start_s + SEGMENT_S >= since_s:
                rows = [
                    (row.time_s, row.values[row.names.index(name)])
                    for row in self._live(path)
                    if name in row.names
                ]
                if rows:
                    table = np.array(rows)
                    yield table[:, 0], table[:, 1]
        for suffix, length_s in ((MINUTE, SEGMENT_S), (HOUR, HOUR_S)):
            for start_s, path in spans(folder, suffix).items():
                if start_s + length_s >= since_s:
                    segment = self._try(path, lambda file: segments.read(file, [name]), None)
                    if segment is not None and name in segment.columns:
                        yield segment.times_s, segment.columns[name]

    def _live(self, path: Path) -> Iterator[Any]:
        damage: list[Path] = []
        try:
            yield from read_spool(path, damage)
        except FileNotFoundError:
            return
        self.damaged.update(damage)

    def _try(self, path: Path, read: Callable[[Path], Any], default: Any) -> Any:
        try:
            return read(path)
        except ValueError:
            if path.exists():  # otherwise it was compacted meanwhile
                self.damaged.add(path)
            return default
