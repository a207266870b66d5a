"""Units: the one place where seconds become microseconds and the like.

Inside the kernel time is an integer number of microseconds, so that two runs
of the same workload agree to the last bit; people and files speak seconds.
"""

from __future__ import annotations

import math

US_PER_S = 1_000_000
S_PER_MIN = 60.0
S_PER_HOUR = 3_600.0
S_PER_DAY = 86_400.0
S_PER_WEEK = 7 * S_PER_DAY
MIB_PER_GIB = 1024
MILLI_PER_DEVICE = 1000
"""A whole device is 1000 thousandths; capacity is counted in these."""
MILLI_PER_CORE = 1000
J_PER_KWH = 3_600_000.0
FOREVER_US = (1 << 62) - 1
"""Later than any event: the time of something that never happens."""


POWER_SLACK = 1.0 + 1e-9
"""A power budget is kept to a billionth: sums of watts are not exact."""


def to_us(seconds: float) -> int:
    """Seconds as whole microseconds, to the nearest."""
    return round(seconds * US_PER_S)


def to_s(microseconds: float) -> float:
    """Microseconds as seconds."""
    return microseconds / US_PER_S


def duration_text(seconds: float) -> str:
    """A duration for people: `42 s`, `3.5 min`, `7.2 h`, `4.1 d`."""
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
