"""Measures the processor time and memory of an attempt. Standard library only."""

from __future__ import annotations

import time

from . import proc

TYPE_CHECKING = False
if TYPE_CHECKING:
    import resource
    from typing import Any

    from .cgroup import Group

LEAST_SAMPLES = 4
"""Samples of the memory of several processes from which their peak is reported."""

SHARED_PAUSE = 20
"""Pause after counting shared pages for the peak, in multiples of the time that took."""


class Usage:
    """Adds up the use of processes that have ended, and samples the memory of those that run.

    Attributes:
        seen_mib: the most memory that all of them had together in any sample.
    """

    __slots__ = ("_cpu_s", "_max_rss_mib", "_peak", "_samples", "_several", "_shared_s",
                 "seen_mib")  # fmt: skip

    def __init__(self) -> None:
        self._cpu_s = self._max_rss_mib = self.seen_mib = self._shared_s = 0.0
        self._samples = 0
        self._several = False
        self._peak: dict[str, Any] = {}

    def add(self, used: resource.struct_rusage, several: bool) -> None:
        """Add a process that has ended, with all children that it reaped.

        Args:
            several: it was not the only process of the job.
        """
        self._cpu_s += used.ru_utime + used.ru_stime
        self._max_rss_mib = max(self._max_rss_mib, used.ru_maxrss / 1024)
        self._several |= several

    def measure(self, pids: list[int], limit_mib: float, now_s: float) -> float:
        """Return the memory of the running processes together.

        Shared pages count once: the slow, exact sum (PSS) decides when the fast one (RSS) is too
        high. It is read only if it can exceed the limit or the peak so far, since RSS is never
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
        self.sample(used_mib)
        return used_mib

    def sample(self, used_mib: float) -> None:
        """Record the memory of all processes together at this moment."""
        self._samples += 1
        self.seen_mib = max(self.seen_mib, used_mib)

    def close(self, group: Group | None) -> None:
        """Determine the peak memory of all processes together, while their group still exists.

        A limit counts that peak; the largest of several processes tells nothing about it.
        """
        grouped_mib = group.peak_mib() if group is not None else 0.0
        if not self._several:
            peak_mib, by = self._max_rss_mib, "process"
        elif grouped_mib:
            peak_mib, by = max(grouped_mib, self._max_rss_mib), "group"
        elif self._samples >= LEAST_SAMPLES:
            peak_mib, by = max(self.seen_mib, self._max_rss_mib), "looks"
        else:
            return
        self._peak = {"peak_mib": round(peak_mib, 3), "peak_by": by}

    def record(self) -> dict[str, Any]:
        """Return the fields of the exit record; without a peak if it is unknown."""
        used = {"cpu_s": round(self._cpu_s, 6), "max_rss_mib": round(self._max_rss_mib, 3)}
        return {**used, **self._peak}
