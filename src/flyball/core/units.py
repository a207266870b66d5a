"""Units: constants, conversions between them, and durations as text.

Inside the kernel time is an integer number of microseconds, so that two runs
of the same workload agree to the last bit; users and files use seconds.
"""

from __future__ import annotations

import math
import re

US_PER_S = 1_000_000
S_PER_MIN = 60.0
S_PER_HOUR = 3_600.0
S_PER_DAY = 86_400.0
S_PER_WEEK = 7 * S_PER_DAY
MIB_PER_GIB = 1024
MILLI_PER_DEVICE = 1000
"""Capacity is counted in thousandths of a device."""
MILLI_PER_CORE = 1000
J_PER_KWH = 3_600_000.0
W_US_PER_KWH = 3.6e12
"""Watt-microseconds per kWh."""
FOREVER_US = (1 << 62) - 1
"""Time of an event that never happens: later than any other."""


POWER_SLACK = 1.0 + 1e-9
"""A power budget is kept to a billionth: sums of watts are not exact."""

UNITS_S = {
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "m": S_PER_MIN,
    "min": S_PER_MIN,
    "h": S_PER_HOUR,
    "d": S_PER_DAY,
}
"""Seconds of each unit that a duration may be written in."""
_PART = r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)\s*(ms|sec|s|min|m|h|d)\s*"


def to_us(seconds: float) -> int:
    """Return seconds as whole microseconds, to the nearest."""
    return round(seconds * US_PER_S)


def to_s(microseconds: float) -> float:
    """Return microseconds as seconds."""
    return microseconds / US_PER_S


def parse_duration_s(text: str) -> float:
    """Return the seconds of a duration such as `90`, `50ms`, `1.5h`, `2 d` or `1h30m`.

    A plain number is in seconds; upper and lower case are the same. NaN for any other text, so
    that the caller's check of the range refuses it too.
    """
    clean = text.strip().lower()
    try:
        seconds = float(clean)
    except ValueError:
        if not re.fullmatch(f"(?:{_PART})+", clean):
            return math.nan
        seconds = sum(float(number) * UNITS_S[unit] for number, unit in re.findall(_PART, clean))
    return seconds if math.isfinite(seconds) else math.nan


def duration_text(seconds: float) -> str:
    """Return a duration for people: `42 s`, `3.5 min`, `7.2 h`, `4.1 d`."""
    if not math.isfinite(seconds):
        return str(seconds)
    size = abs(seconds)
    if size < 2 * S_PER_MIN:
        return f"{seconds:.0f} s" if size >= 10 or seconds == 0 else f"{seconds:.2g} s"
    if size < 2 * S_PER_HOUR:
        return f"{seconds / S_PER_MIN:.1f} min"
    if size < 2 * S_PER_DAY:
        return f"{seconds / S_PER_HOUR:.1f} h"
    return f"{seconds / S_PER_DAY:.1f} d"
