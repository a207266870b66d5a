"""Signals: electricity price and grid carbon intensity as steps over time.

A `Signal` holds its first value from its first step on, the next from the next step, and so on to
its end. Times are int64 microseconds since 1970, UTC. A profile of a day or a week repeats for
ever. A dated series is used by calendar time; outside its dates its nearest week repeats (its
nearest day if it is shorter than a week, its nearest value if it is shorter than a day). A constant
is a signal of one step.

`Signal.integral` is the plain definition; `physics/signals.py` is the compiled one, and they agree
to the last bit.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from flyball.core.units import S_PER_DAY, S_PER_WEEK, US_PER_S, to_us

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

DAY_US = to_us(S_PER_DAY)
WEEK_US = to_us(S_PER_WEEK)
HOUR_US = DAY_US // 24
FIRST_MONDAY_US = 4 * DAY_US
"""1970-01-05, the first Monday; time 0 of a workload without dates is midnight of a Monday."""
FOREVER_AHEAD_US = 1 << 60
"""Known ahead: for all time, as a tariff is."""
PER_DAY = (24, 48, 96)
"""Numbers of values that a day's profile may have."""


@dataclass(frozen=True)
class DayAhead:
    """Publication of a day-ahead market: a day's prices are known from `hour` of the day before.

    Attributes:
        hour: local hour of publication.
        offset_us: local time less UTC.
    """

    hour: int = 13
    offset_us: int = 0

    def until_us(self, now_us: int) -> int:
        """Return the instant up to which the series is published at `now_us`."""
        local_us = now_us + self.offset_us
        midnight_us = local_us // DAY_US * DAY_US
        days = 2 if local_us - midnight_us >= self.hour * HOUR_US else 1
        return midnight_us + days * DAY_US - self.offset_us


@dataclass(frozen=True)
class Signal:
    """A step function of time.

    Attributes:
        name: where it comes from, for people.
        times_us: starts of the steps, increasing.
        values: value from each start on.
        end_us: end of the last step.
        period_us: length of the part that repeats outside its dates, 0 = the nearest value holds.
        dated: whether it is a series by calendar time; a profile and a constant are not.
        origin_us: calendar instant that stands for time 0 of a workload without dates.
        known_ahead: microseconds ahead of now, or the rule of a day-ahead market, up to which the
            series' future values are public.
        notes: what was assumed or left out when it was read.
        key: digest of the rest: signals are equal if their keys are.
    """

    name: str = field(compare=False)
    times_us: Ints = field(compare=False)
    values: Floats = field(compare=False)
    end_us: int = field(compare=False)
    period_us: int = field(compare=False, default=0)
    dated: bool = field(compare=False, default=False)
    origin_us: int = field(compare=False, default=FIRST_MONDAY_US)
    known_ahead: int | DayAhead = field(compare=False, default=FOREVER_AHEAD_US)
    notes: tuple[str, ...] = field(compare=False, default=())
    key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        assert len(self.times_us) == len(self.values) > 0, "a signal has at least one step"
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self.times_us.tobytes() + self.values.tobytes())
        rest = (self.end_us, self.period_us, self.dated, self.origin_us, self.known_ahead)
        digest.update(repr(rest).encode())
        object.__setattr__(self, "key", digest.hexdigest())

    def __repr__(self) -> str:
        return f"Signal({self.describe()})"

    # Constructors -------------------------------------------------------------

    @classmethod
    def flat(cls, value: float) -> Signal:
        """Return a constant."""
        times = np.array([FIRST_MONDAY_US], np.int64)
        return cls(f"{value:g}", times, np.array([value], np.float64), FIRST_MONDAY_US + DAY_US)

    @classmethod
    def profile(cls, values: Sequence[float], period_us: int, offset_us: int = 0) -> Signal:
        """Return a profile that repeats: evenly spaced values from local midnight, or Monday.

        Args:
            values: of one day or one week.
            period_us: `DAY_US` or `WEEK_US`.
            offset_us: local time less UTC.
        """
        begin_us = FIRST_MONDAY_US - offset_us
        times = begin_us + np.arange(len(values), dtype=np.int64) * (period_us // len(values))
        name = "daily profile" if period_us == DAY_US else "weekly profile"
        return cls(name, times, np.array(values, np.float64), begin_us + period_us, period_us)

    @classmethod
    def series(
        cls,
        name: str,
        times_us: Ints,
        values: Floats,
        origin_us: int | None = None,
        known_ahead: int | DayAhead = 0,
        notes: tuple[str, ...] = (),
    ) -> Signal:
        """Return a dated series; its last step is as long as its usual one.

        Args:
            name: where it comes from.
            times_us: starts of its steps, increasing.
            values: value of each step.
            origin_us: what time 0 of a workload without dates stands for; None = its first Monday.
            known_ahead, notes: see the class.
        """
        usual_us = int(np.median(np.diff(times_us))) if len(times_us) > 1 else DAY_US
        begin_us, end_us = int(times_us[0]), int(times_us[-1]) + usual_us
        whole = [period for period in (WEEK_US, DAY_US) if end_us - begin_us >= period]
        if origin_us is None:
            origin_us = begin_us + (FIRST_MONDAY_US - begin_us) % WEEK_US
            origin_us = origin_us if origin_us < end_us else begin_us
        return cls(
            name,
            times_us,
            values,
            end_us,
            whole[0] if whole else 0,
            True,
            origin_us,
            known_ahead,
            notes,
        )

    # What it says --------------------------------------------------------------

    @property
    def begin_us(self) -> int:
        """Return the start of its first step."""
        return int(self.times_us[0])

    @property
    def is_flat(self) -> bool:
        """Return whether it is a constant."""
        return len(self.values) == 1

    @property
    def step_us(self) -> int:
        """Return the length of its steps if all are alike, else 0."""
        gaps = np.diff(self.times_us, append=self.end_us)
        return int(gaps[0]) if (gaps == gaps[0]).all() else 0

    @cached_property
    def sums(self) -> Floats:
        """Return the integral from its begin to each start of a step, and to its end."""
        parts = self.values * np.diff(self.times_us, append=self.end_us)
        return np.concatenate(([0.0], np.cumsum(parts)))

    @cached_property
    def _bounds_us(self) -> list[int]:
        return [*self.times_us.tolist(), self.end_us]

    def value_at(self, time_us: int) -> float:
        """Return its value at an instant."""
        _lap, step = self._place(time_us)
        return float(self.values[step])

    def values_at(self, times_us: Ints) -> Floats:
        """Return its values at many instants."""
        laps = np.zeros_like(times_us)
        if self.period_us:
            after, before = times_us - self.end_us, times_us - self.begin_us
            laps = np.where(after >= 0, after // self.period_us + 1, laps)
            laps = np.where(before < 0, before // self.period_us, laps)
        steps = np.searchsorted(self.times_us, times_us - laps * self.period_us, "right") - 1
        values: Floats = self.values[np.maximum(steps, 0)]
        return values

    def integral(self, begin_us: int, end_us: int) -> float:
        """Return its integral from one instant to a later one, in its unit times microseconds.

        The part of each step is its value times whole microseconds; whole steps between come from
        `sums`. Order of operations: head + ((sums + laps) + tail).
        """
        lap, step = self._place(begin_us)
        last_lap, last_step = self._place(end_us)
        if (lap, step) == (last_lap, last_step):
            return float(self.values[step]) * (end_us - begin_us)
        bounds = self._bounds_us
        head = (bounds[step + 1] + lap * self.period_us - begin_us) * float(self.values[step])
        tail = (end_us - (bounds[last_step] + last_lap * self.period_us)) * float(
            self.values[last_step]
        )
        whole = float(self.sums[last_step]) - float(self.sums[step + 1])
        laps = self._of_laps(last_lap) - self._of_laps(lap)
        return head + ((whole + laps) + tail)

    def _place(self, time_us: int) -> tuple[int, int]:
        """Return how many periods outside its dates an instant is, and the step it falls on."""
        bounds, lap = self._bounds_us, 0
        if self.period_us and time_us >= self.end_us:
            lap = (time_us - self.end_us) // self.period_us + 1
        elif self.period_us and time_us < bounds[0]:
            lap = (time_us - bounds[0]) // self.period_us
        step = bisect_right(bounds, time_us - lap * self.period_us) - 1
        return lap, min(max(step, 0), len(self.values) - 1)

    def _of_laps(self, lap: int) -> float:
        """Return the integral over the periods between its dates and a lap."""
        return lap * (self.period_after if lap > 0 else self.period_before)

    @cached_property
    def period_before(self) -> float:
        """Return the integral over its first period."""
        return self._of_part(self.begin_us, self.begin_us + self.period_us)

    @cached_property
    def period_after(self) -> float:
        """Return the integral over its last period."""
        return self._of_part(self.end_us - self.period_us, self.end_us)

    def _of_part(self, begin_us: int, end_us: int) -> float:
        """Return the integral over a part within its dates, step by step."""
        spans = zip(pairwise(self._bounds_us), self.values.tolist(), strict=True)
        total = 0.0
        for (begin, end), value in spans:
            total += max(0, min(end, end_us) - max(begin, begin_us)) * value
        return total

    # Time --------------------------------------------------------------------

    def shifted(self, by_us: int) -> Signal:
        """Return the same signal `by_us` later."""
        return replace(
            self,
            times_us=self.times_us + by_us,
            end_us=self.end_us + by_us,
            origin_us=self.origin_us + by_us,
            known_ahead=_shifted_rule(self.known_ahead, by_us),
        )

    def on_clock(self, origin_us: int | None) -> Signal:
        """Return the signal on a workload's clock.

        Args:
            origin_us: calendar instant of the clock's 0; None = the workload has no dates.
        """
        return self.shifted(-(self.origin_us if origin_us is None else origin_us))

    def known_until_us(self, now_us: int) -> int:
        """Return the instant up to which its values are public at `now_us`, now at the least."""
        if isinstance(self.known_ahead, DayAhead):
            return max(now_us, self.known_ahead.until_us(now_us))
        return now_us + self.known_ahead

    def describe(self) -> str:
        """Return where it comes from, and its dates."""
        if not self.dated:
            return self.name
        return f"{self.name}, {_date(self.begin_us)} to {_date(self.end_us)} UTC"

    def alignment(self, origin_us: int | None, begin_us: int, end_us: int) -> list[str]:
        """Return what must be said about its use over a span of a workload's clock, in sentences.

        Args:
            origin_us: calendar instant of the clock's 0; None = the workload has no dates.
            begin_us, end_us: the span on that clock.
        """
        if not self.dated:
            return []
        lines = list(self.notes)
        if origin_us is None:
            lines.append(
                f"{self.name}: the trace has no dates; its time 0 is taken as "
                f"{_date(self.origin_us)} (`from` in the cluster file sets another day)"
            )
        local = self.on_clock(origin_us)
        if begin_us < local.begin_us or end_us > local.end_us:
            part = {WEEK_US: "week repeats", DAY_US: "day repeats", 0: "value holds"}
            lines.append(
                f"{self.name}: the run goes beyond its dates ({_date(self.begin_us)} to "
                f"{_date(self.end_us)}); there its nearest {part[self.period_us]}"
            )
        return lines


def _shifted_rule(rule: int | DayAhead, by_us: int) -> int | DayAhead:
    """Return a publication rule on a clock that reads `by_us` more."""
    if isinstance(rule, DayAhead):
        return replace(rule, offset_us=rule.offset_us - by_us)
    return rule


def _date(time_us: int) -> str:
    text = datetime.fromtimestamp(time_us / US_PER_S, UTC).isoformat(" ", "minutes")
    return text.removesuffix("+00:00").removesuffix(" 00:00")
