"""Instruction throughput and cache hit rate, from the processor's counters.

They need `perf_event_open`, which most virtual machines and containers do not permit.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from flyball.core.protocols import Sample
from flyball.monitor.sensor import Null, Site, text_of

CALLS = {"x86_64": 298, "aarch64": 241}
"""Number of the system call `perf_event_open` by architecture."""
ATTRIBUTE_SIZE = 112
CLOSE_ON_EXEC = 8
TIMES = 1 | 2
"""Read format: the value, then the time enabled and the time actually counted."""


class PerfEvent(NamedTuple):
    """A counter to open; `linux/perf_event.h` defines the numbers."""

    name: str
    kind: int
    config: int


EVENTS = (
    PerfEvent("instructions_total", 0, 1),
    PerfEvent("cycles_total", 0, 0),
    PerfEvent("cache_references_total", 0, 2),
    PerfEvent("cache_misses_total", 0, 3),
)


class Counters:
    """Totals over all cores since the collector was opened, and the share of cache hits."""

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.1
    blocks: ClassVar[bool] = False

    def __init__(self, files: Mapping[str, Sequence[int]]) -> None:
        self._files = files
        self._before: dict[str, float] = {}
        self.about: Mapping[str, str] = {"source": "perf_event_open, all cores"}

    @classmethod
    def open(cls, site: Site, events: Sequence[PerfEvent] = EVENTS) -> Counters | Null:
        files: dict[str, list[int]] = {}
        try:
            for event in events:
                cores = range(os.cpu_count() or 1)
                files[event.name] = [_open(event, core) for core in cores]
        except OSError as error:
            cls(files)._close()
            paranoid = text_of(site.proc("sys/kernel/perf_event_paranoid"), "unknown")
            why = f"no hardware counters: perf_event_open reports {error.strerror!r}"
            return Null("counters", f"{why} (kernel.perf_event_paranoid is {paranoid})")
        return cls(files)

    def collect(self, now: float) -> Sample:
        values = {name: sum(map(_count, files)) for name, files in self._files.items()}
        totals = dict(values)
        seen = self._moved(totals, "cache_references_total")
        if seen > 0:
            missed = self._moved(totals, "cache_misses_total")
            values["cache_hit_percent"] = 100.0 * max(0.0, 1.0 - missed / seen)
        self._before = totals
        return Sample("counters", now, values)

    def _moved(self, totals: Mapping[str, float], name: str) -> float:
        return totals.get(name, 0.0) - self._before.get(name, 0.0)

    def _close(self) -> None:
        for files in self._files.values():
            for file in files:
                os.close(file)
        self._files = {}

    def __del__(self) -> None:
        self._close()


def _open(event: PerfEvent, core: int) -> int:
    """Open a counter over all processes on one core; returns its descriptor.

    Raises:
        OSError: it is not available or not permitted.
    """
    number = CALLS.get(platform.machine())
    if number is None:
        raise OSError(0, f"not known on {platform.machine()}")
    attribute = bytearray(ATTRIBUTE_SIZE)
    struct.pack_into("<IIQ", attribute, 0, event.kind, ATTRIBUTE_SIZE, event.config)
    struct.pack_into("<Q", attribute, 32, TIMES)
    library = ctypes.CDLL(None, use_errno=True)
    pointer = (ctypes.c_char * ATTRIBUTE_SIZE).from_buffer(attribute)
    descriptor: int = library.syscall(number, pointer, -1, core, -1, CLOSE_ON_EXEC)
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def _count(file: int) -> float:
    """Return the count, scaled up if the counter was multiplexed with others."""
    value, enabled, running = struct.unpack("<QQQ", os.read(file, 24))
    return float(value) * enabled / running if running else 0.0
