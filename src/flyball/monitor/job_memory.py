"""Measures a job's memory: the resident pages of its processes, shared pages counted once.

The supervisor is excluded. The page tables of several processes tell which pages they share, but
take about 10 ms per GiB to read, so a large job's are read less often than it is sampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

GIB = 2**30
REREAD_S_PER_GIB = 1.0
"""Interval between two reads of page tables, per resident GiB: about 1 % of one core."""


class _Reading(NamedTuple):
    """The share of a job's resident bytes that remains if shared pages count once.

    Attributes:
        due_s: when to read the page tables again.
    """

    due_s: float
    unshared: float


class JobMemory:
    """Measures the memory of jobs, each identified by its supervisor's pid."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._readings: dict[int, _Reading] = {}

    def keep(self, supervisors: Iterable[int]) -> None:
        """Forget all other jobs."""
        kept = set(supervisors)
        self._readings = {pid: reading for pid, reading in self._readings.items() if pid in kept}

    def measure(self, supervisor: int, rss_bytes: Mapping[int, int], now_s: float) -> int:
        """Return the bytes that a job uses now.

        Args:
            rss_bytes: resident bytes of each of its processes, by pid, without its supervisor.
        """
        total = sum(rss_bytes.values())
        if len(rss_bytes) < 2 or not total:
            self._readings.pop(supervisor, None)
            return total
        reading = self._readings.get(supervisor)
        if reading is None or now_s >= reading.due_s:
            once = sum(self._proportional(pid, rss) for pid, rss in rss_bytes.items())
            due_s = now_s + REREAD_S_PER_GIB * total / GIB
            reading = self._readings[supervisor] = _Reading(due_s, once / total)
        return round(total * reading.unshared)

    def _proportional(self, pid: int, rss_bytes: int) -> int:
        """Return a process's bytes, each page divided by the number of processes that map it (PSS).

        Where that is not readable, return all of its resident bytes.
        """
        try:
            text = (self._proc / str(pid) / "smaps_rollup").read_text()
        except OSError:
            return rss_bytes
        for line in text.splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return rss_bytes
