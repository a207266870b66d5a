"""A series of numbers at even steps, and how one is made of what people have.

Files have gaps, repeated stamps, rows out of order, clocks that jump and values that are none.
`regular` puts all of that on an even grid and says in `notes` what it did; what cannot be mended
is refused with a reason. A missing value stays missing (NaN): forecasters know how to go on.
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
"""A grid longer than this is a wrong step or a wrong stamp, not a series."""
UNEVEN = 0.05
"""From this part of stamps off the grid on, a series is called irregular."""


@dataclass(frozen=True)
class Series:
    """Values at even steps.

    Attributes:
        name: for people.
        start_s: time of the first value, seconds since 1970 in the series' own clock.
        step_s: between two values.
        values: NaN where there is none.
        also: other series on the same grid that are known when the values are (NaN allowed).
        parts: series on the same grid whose sum the values are, as far as they are known.
        zone: the time zone (`Europe/Berlin`) that people's days follow, "" = that of the stamps.
        notes: what cleaning did, a sentence each.
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
        """The first `count` values: what was known then."""
        also = {name: values[:count] for name, values in self.also.items()}
        parts = {name: values[:count] for name, values in self.parts.items()}
        return replace(self, values=self.values[:count], also=also, parts=parts)

    def steps(self, seconds: float) -> int:
        """A span in steps, at least one."""
        return max(1, round(seconds / self.step_s))

    @property
    def day(self) -> int:
        """Steps in a day, 0 where a step is longer than that or does not divide one."""
        count = S_PER_DAY / self.step_s
        return round(count) if count >= 2 and abs(count - round(count)) < 1e-6 else 0

    @cached_property
    def filled(self) -> Floats:
        """The values with each missing one replaced by the last before it (first: the first)."""
        known = np.isfinite(self.values)
        if not known.any():
            return np.zeros(len(self))
        latest = np.maximum.accumulate(np.where(known, np.arange(len(self)), -1))
        latest[latest < 0] = int(np.argmax(known))
        filled: Floats = self.values[latest]
        return filled

    def clock(self, indices: Ints) -> tuple[Floats, Ints]:
        """Second of the day and day of the week (0 = Thursday) on people's clocks."""
        times: Floats = self.start_s + indices.astype(float) * self.step_s
        times = times + _offsets(times, self.zone)
        return np.mod(times, S_PER_DAY), (np.floor(times / S_PER_DAY) % 7).astype(np.int64)


def _offsets(times: Floats, zone: str) -> Floats | float:
    """Seconds to add to UTC; daylight saving is why this is not one number."""
    if not zone or not len(times):
        return 0.0
    from datetime import datetime

    where = ZoneInfo(zone)
    hours, inverse = np.unique(np.floor(times / S_PER_HOUR), return_inverse=True)
    offsets = [datetime.fromtimestamp(hour * S_PER_HOUR, where).utcoffset() for hour in hours]
    seconds = np.array([0.0 if each is None else each.total_seconds() for each in offsets])
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
    """A series on an even grid from stamps and values as they come.

    Rows without a time are left out, infinite values become missing, rows are sorted, values of
    one stamp are averaged (an hour that a clock shows twice too), stamps that are not on the grid
    go to the nearest point of it, and what is dated after `now_s` is left out.

    Raises:
        BadInput: nothing is left, no step can be seen, or the grid would be absurdly long.
    """
    notes: list[str] = []
    stamps, numbers = np.asarray(times, float), np.asarray(values, float)
    if not len(stamps):
        raise BadInput(f"{name}: no rows", "give a file that has some")
    keep = np.isfinite(stamps)
    _say(notes, int((~keep).sum()), "rows without a time left out")
    if now_s is not None:
        late = keep & (stamps > now_s)
        _say(notes, int(late.sum()), "rows dated in the future left out")
        keep &= ~late
    stamps, numbers = stamps[keep], numbers[keep].copy()
    infinite = np.isinf(numbers)
    _say(notes, int(infinite.sum()), "infinite values taken as missing")
    numbers[infinite] = np.nan
    if not np.isfinite(numbers).any():
        raise BadInput(f"{name}: not one number in {len(keep):,} rows", "name another column")
    if (np.diff(stamps) < 0).any():
        notes.append("rows were not in the order of time; sorted")
    order = np.argsort(stamps, kind="stable")
    stamps, numbers = stamps[order], numbers[order]
    step = _step(name, stamps, step_s)
    return _on_grid(name, stamps, numbers, step, zone, notes)


def _say(notes: list[str], count: int, what: str) -> None:
    if count:
        notes.append(f"{count:,} {what}")


def _step(name: str, stamps: Floats, wanted: float | None) -> float:
    if wanted is not None:
        if not (math.isfinite(wanted) and wanted > 0):
            raise BadInput(f"{name}: a step of {wanted} s", "use a number above 0")
        return wanted
    gaps = np.diff(stamps)
    gaps = gaps[gaps > 0]
    if not len(gaps):
        raise BadInput(f"{name}: one instant only, so no step", "give the step, or more rows")
    return float(np.median(gaps))


def _on_grid(
    name: str, stamps: Floats, numbers: Floats, step: float, zone: str, notes: list[str]
) -> Series:
    start = float(stamps[0])
    place = (stamps - start) / step
    count = int(np.rint(place[-1])) + 1
    if count > MOST_POINTS:
        span = duration_text(float(stamps[-1] - start))
        raise BadInput(
            f"{name}: {span} at a step of {step:g} s is {count:,} points",
            f"give a larger step (at most {MOST_POINTS:,} points), or mend the stamps",
        )
    slots = np.rint(place).astype(np.int64)
    uneven = float(np.mean(np.abs(place - slots) > 0.02))
    if uneven > UNEVEN:
        notes.append(f"{uneven:.0%} of the stamps are off the grid of {step:g} s; averaged on it")
    _say(notes, len(slots) - len(np.unique(slots)), "values share a point with another; averaged")
    known = np.isfinite(numbers)
    sums = np.bincount(slots[known], numbers[known], count)
    counts = np.bincount(slots[known], minlength=count)
    values = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    _say(notes, int((counts == 0).sum()), f"of {count:,} points are missing")
    return Series(name, start, step, values, zone=zone, notes=tuple(notes))


def whole_numbers(values: Floats) -> bool:
    """Whether all that is known is counts of something."""
    known = values[np.isfinite(values)]
    return bool(len(known)) and bool(np.all(known == np.rint(known)))
