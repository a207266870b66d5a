"""Main memory: used, available, cached, swapped, and page faults, a sign of memory pressure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import KeptFile, Null, Site, kept, pressure_s

FIELDS = tuple(
    f"\n{name}:".encode()
    for name in ("MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree")
)
VMSTAT = re.compile(rb"\npgfault (\d+)\npgmajfault (\d+)\n")
SWAPS = re.compile(rb"\npswpin (\d+)\npswpout (\d+)\n")
TOTALS_S = 0.5
"""Totals are read at most this often, as they lose nothing and are slow: the kernel adds up more
than a hundred counters of every core."""
KIB = 1024
VMSTAT_SIZE = 1 << 14


class Memory:
    """Snapshots of /proc/meminfo and totals of /proc/vmstat."""

    family: ClassVar[str] = "memory"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False

    def __init__(self, info: KeptFile, stat: KeptFile | None, pressure: KeptFile | None) -> None:
        self._info, self._stat, self._pressure = info, stat, pressure
        self._totals_due = -1.0
        self.about: Mapping[str, str] = {
            "source": "/proc/meminfo, /proc/vmstat",
            "resolution": "1 KiB; the kernel sums counters of its cores about once a second",
        }

    @classmethod
    def open(cls, site: Site) -> Memory | Null:
        info = kept(site.proc("meminfo"))
        if info is None:
            return Null("memory", f"no {site.proc('meminfo')}: not a Linux machine")
        stat = kept(site.proc("vmstat"), VMSTAT_SIZE)
        return cls(info, stat, kept(site.proc("pressure/memory")))

    def collect(self, now: float) -> Sample:
        data = self._info.read()
        total = _kib(data, b"MemTotal:")
        free, available, buffers, cached, swap, swap_free = (_kib(data, field) for field in FIELDS)
        values: dict[str, float] = {
            "total_bytes": total * KIB,
            "used_bytes": (total - available) * KIB,
            "available_bytes": available * KIB,
            "free_bytes": free * KIB,
            "cached_bytes": (buffers + cached) * KIB,
            "swap_used_bytes": (swap - swap_free) * KIB,
        }
        if now >= self._totals_due:
            self._totals_due = now + 0.9 * TOTALS_S
            values.update(self._totals())
        return Sample("memory", now, values)

    def _totals(self) -> dict[str, float]:
        values = _faults(self._stat.read()) if self._stat is not None else {}
        if self._pressure is not None:
            values["stalled_s_total"] = pressure_s(self._pressure)
        return values


def _kib(data: bytes, field: bytes) -> int:
    """Return a field of /proc/meminfo; ValueError if it is missing."""
    at = data.index(field) + len(field)
    return int(data[at : data.index(b" kB", at)])


def _faults(data: bytes) -> dict[str, float]:
    faults, swaps = VMSTAT.search(data), SWAPS.search(data)
    values: dict[str, float] = {}
    if faults:
        values["faults_total"], values["major_faults_total"] = map(int, faults.groups())
    if swaps:
        values["swap_in_pages_total"], values["swap_out_pages_total"] = map(int, swaps.groups())
    return values
