"""A series of numbers at even steps, and how to build one from irregular data.

Files have gaps, repeated time stamps, rows out of order, clocks that jump and invalid values.
`regular` puts all of that on an even grid and lists in `notes` what it did; what cannot be
repaired is refused with a reason. A missing value stays missing (NaN); forecasters handle it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np

from flyball.core.errors import BadInput
from flyball.core.results import Floats, Ints
from flyball.core.units import S_PER_DAY, S_PER_HOUR, duration_text

MOST_POINTS = 2_000_000
"""Longest grid; a longer one comes from a wrong step or a wrong time stamp."""
UNEVEN = 0.05
"""Part of time stamps off the grid above which a series is called irregular."""


@dataclass(frozen=True)
class Series:
    """Holds values at even steps.

    Attributes:
        name: shown to users.
        start_s: time of the first value, seconds since 1970 by the series' clock.
        step_s: time between two values.
        values: NaN where there is none.
        also: other series on the same grid that are known when the values are (NaN allowed).
        parts: series on the same grid that add up to the values, where known.
        zone: the time zone (`Europe/Berlin`) of users' days, "" = that of the time stamps.
        notes: what cleaning changed, a sentence each.
    """

    name: str
    start_s: float
    step_s: float
    values: Floats
    also: Mapping[str, Floats] = field(default_factory=dict)
    zone: str = ""
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def head(self, count: int) -> Series:
        """Return the series with its first `count` values: what was known then."""
        also = {name: values[:count] for name, values in self.also.items()}
        parts = {name: values[:count] for name, values in self.parts.items()}
        return replace(self, values=self.values[:count], also=also, parts=parts)

    def steps(self, seconds: float) -> int:
        """Return a time span in steps, at least one."""
        return max(1, round(seconds / self.step_s))

    @property
    def day(self) -> int:
        """Steps in a day, 0 where a step is longer than that or does not divide one."""
        count = S_PER_DAY / self.step_s
        return round(count) if count >= 2 and abs(count - round(count)) < 1e-6 else 0

    @cached_property
    def filled(self) -> Floats:
        """The values, missing ones replaced by the last known before, else by the first known."""
        is_known = np.isfinite(self.values)
        if not is_known.any():
            return np.zeros(len(self))
        latest = np.maximum.accumulate(np.where(is_known, np.arange(len(self)), -1))
        latest[latest < 0] = int(np.argmax(is_known))
        filled: Floats = self.values[latest]
        return filled

    def clock(self, indices: Ints) -> tuple[Floats, Ints]:
        """Return second of the day and day of the week (0 = Thursday) in the series' zone."""
        times: Floats = self.start_s + indices.astype(float) * self.step_s
        times = times + _offsets(times, self.zone)
        return np.mod(times, S_PER_DAY), (np.floor(times / S_PER_DAY) % 7).astype(np.int64)


def _offsets(times: Floats, zone: str) -> Floats | float:
    """Return the seconds to add to UTC, per time because of daylight saving."""
    if not zone or not len(times):
        return 0.0
    from datetime import datetime

    where = ZoneInfo(zone)
    hours, inverse = np.unique(np.floor(times / S_PER_HOUR), return_inverse=True)
    offsets = [datetime.fromtimestamp(hour * S_PER_HOUR, where).utcoffset() for hour in hours]
    seconds = np.array([0.0 if offset is None else offset.total_seconds() for offset in offsets])
    result: Floats = seconds[inverse]
    return result


def regular(
    name: str,
    times: Sequence[float] | Floats,
    values: Sequence[float] | Floats,
    step_s: float | None = None,
    now_s: float | None = None,
    zone: str = "",
) -> Series:
    """Return a series on an even grid from unordered time stamps and values.

    Rows without a time are left out, infinite values become missing, rows are sorted, values of
    one time stamp are averaged (also in an hour that a clock shows twice), stamps off the grid move
    to its nearest point, and rows dated after `now_s` are left out.

    Raises:
        BadInput: no value is left, the step is not clear, or the grid would be too long.
    """
    notes: list[str] = []
    stamps, numbers = np.asarray(times, float), np.asarray(values, float)
    if not len(stamps):
        raise BadInput(f"{name}: no rows", "give a file that has some")
    keep = np.isfinite(stamps)
    _note(notes, int((~keep).sum()), "rows without a time left out")
    if now_s is not None:
        late = keep & (stamps > now_s)
        _note(notes, int(late.sum()), "rows dated in the future left out")
        keep &= ~late
    stamps, numbers = stamps[keep], numbers[keep].copy()
    infinite = np.isinf(numbers)
    _note(notes, int(infinite.sum()), "infinite values taken as missing")
    numbers[infinite] = np.nan
    if not np.isfinite(numbers).any():
        raise BadInput(f"{name}: no numbers in {len(keep):,} rows", "name another column")
    if (np.diff(stamps) < 0).any():
        notes.append("rows were not in the order of time; sorted")
    order = np.argsort(stamps, kind="stable")
    stamps, numbers = stamps[order], numbers[order]
    step = _step(name, stamps, step_s)
    return _on_grid(name, stamps, numbers, step, zone, notes)


def _note(notes: list[str], count: int, what: str) -> None:
    if count:
        notes.append(f"{count:,} {what}")


def _step(name: str, stamps: Floats, requested: float | None) -> float:
    if requested is not None:
        if not (math.isfinite(requested) and requested > 0):
            raise BadInput(f"{name}: a step of {requested} s", "use a number above 0")
        return requested
    gaps = np.diff(stamps)
    gaps = gaps[gaps > 0]
    if not len(gaps):
        raise BadInput(f"{name}: only one time stamp, so no step", "give the step, or more rows")
    return float(np.median(gaps))


def _on_grid(
    name: str, stamps: Floats, numbers: Floats, step: float, zone: str, notes: list[str]
) -> Series:
    start = float(stamps[0])
    position = (stamps - start) / step
    count = int(np.rint(position[-1])) + 1
    if count > MOST_POINTS:
        span = duration_text(float(stamps[-1] - start))
        raise BadInput(
            f"{name}: {span} at a step of {step:g} s is {count:,} points",
            f"give a larger step (at most {MOST_POINTS:,} points), or correct the time stamps",
        )
    slots = np.rint(position).astype(np.int64)
    uneven = float(np.mean(np.abs(position - slots) > 0.02))
    if uneven > UNEVEN:
        notes.append(f"{uneven:.0%} of the stamps are off the grid of {step:g} s; averaged on it")
    _note(notes, len(slots) - len(np.unique(slots)), "values share a point with another; averaged")
    is_known = np.isfinite(numbers)
    sums = np.bincount(slots[is_known], numbers[is_known], count)
    counts = np.bincount(slots[is_known], minlength=count)
    values = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    _note(notes, int((counts == 0).sum()), f"of {count:,} points are missing")
    return Series(name, start, step, values, zone=zone, notes=tuple(notes))


def whole_numbers(values: Floats) -> bool:
    """Return whether all known values are whole numbers."""
    present = values[np.isfinite(values)]
    return bool(len(present)) and bool(np.all(present == np.rint(present)))
