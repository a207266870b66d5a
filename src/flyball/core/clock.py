"""Clocks. Nothing below `app` reads the time of day or sleeps by itself.

`VirtualClock` is the plain case; `RealClock` reads the machine's clock, and its `sleep` takes time.
"""

from __future__ import annotations

import time

from flyball.core.units import US_PER_S


class VirtualClock:
    """Time that passes only in `sleep`. For the twin and for tests."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now(self) -> float:
        """Return the seconds since the clock's origin."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass; a negative number counts as 0."""
        self._now_s += max(0.0, seconds)


class RealClock(VirtualClock):
    """The machine's monotonic time, from the moment of construction."""

    def __init__(self) -> None:
        super().__init__()
        self._origin_s = time.monotonic()

    def now(self) -> float:
        return time.monotonic() - self._origin_s

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class LiveClock:
    """Counts microseconds since 1970 and never goes back, even if the time of day is set back.

    It starts at the later of the time of day and `not_before_us` (the last recorded event), and
    then follows the machine's monotonic clock.
    """

    def __init__(self, not_before_us: int = 0) -> None:
        self._origin_us = max(time.time_ns() // 1000, not_before_us + 1)
        self._began_ns = time.monotonic_ns()

    def not_before(self, last_us: int) -> None:
        """Move forward, if need be, to just after the last recorded event."""
        self._origin_us += max(0, last_us + 1 - self.now_us())

    def now_us(self) -> int:
        """Return the current time in microseconds."""
        return self._origin_us + (time.monotonic_ns() - self._began_ns) // 1000

    def now(self) -> float:
        """Return the current time in seconds."""
        return self.now_us() / US_PER_S

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass."""
        time.sleep(max(0.0, seconds))
