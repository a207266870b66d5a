"""What an attempt used: processor time, memory. Standard library only."""

from __future__ import annotations

import time

from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any

    from .cgroup import Group

LEAST_LOOKS = 4
"""At the memory of several processes: with fewer, nobody knows what they had at most."""

SHARED_PAUSE = 20
"""Pause after the shared pages were counted for the peak, in multiples of what that took."""


class Usage:
    """Adds up what processes used that have ended, and what was seen of those that run.

    Attributes:
        seen_mib: the most that all of them had together in any look.
    """

    __slots__ = ("_cpu_s", "_looks", "_max_rss_mib", "_peak", "_several", "_shared_s", "seen_mib")

    def __init__(self) -> None:
        self._cpu_s = self._max_rss_mib = self.seen_mib = self._shared_s = 0.0
        self._looks = 0
        self._several = False
        self._peak: dict[str, Any] = {}

    def add(self, used: resource.struct_rusage, several: bool) -> None:
        """A process has ended, with all of its children that it waited for.

        Args:
            several: it was not the only process of the job.
        """
        self._cpu_s += used.ru_utime + used.ru_stime
        self._max_rss_mib = max(self._max_rss_mib, used.ru_maxrss / 1024)
        self._several |= several

    def measure(self, pids: list[int], limit_mib: float, now_s: float) -> float:
        """Add up the memory of running processes, and return it.

        Shared pages count once: the slow, fair sum decides when the quick one is too high. That
        sum is read only if it can exceed the limit or the peak so far, since the quick one is never
        below it; and for the peak alone at most a twentieth of the time is spent on it.
        """
        used_mib = sum(map(proc.rss_mib, pids))
        over = used_mib > limit_mib
        if over or (len(pids) > 1 and used_mib > self.seen_mib):
            if not over and now_s < self._shared_s:
                return used_mib
            used_mib = sum(map(proc.pss_mib, pids))
            done_s = time.monotonic()
            self._shared_s = done_s + SHARED_PAUSE * (done_s - now_s)
        self.look(used_mib)
        return used_mib

    def look(self, used_mib: float) -> None:
        """All of them together had so much memory just now."""
        self._looks += 1
        self.seen_mib = max(self.seen_mib, used_mib)

    def close(self, group: Group | None) -> None:
        """Find out what all processes had at most at one time, while their group is still there.

        That is what a limit counts; the largest of several processes says nothing of it.
        """
        grouped_mib = group.peak_mib() if group is not None else 0.0
        if not self._several:
            peak_mib, by = self._max_rss_mib, "process"
        elif grouped_mib:
            peak_mib, by = max(grouped_mib, self._max_rss_mib), "group"
        elif self._looks >= LEAST_LOOKS:
            peak_mib, by = max(self.seen_mib, self._max_rss_mib), "looks"
        else:
            return
        self._peak = {"peak_mib": round(peak_mib, 3), "peak_by": by}

    def record(self) -> dict[str, Any]:
        """For the exit record; without a peak where nobody knows it."""
        used = {"cpu_s": round(self._cpu_s, 6), "max_rss_mib": round(self._max_rss_mib, 3)}
        return {**used, **self._peak}
