"""CPU time used by each core, from the finest counter that this kernel keeps.

`/proc/schedstat` also counts nanoseconds, but only when a task leaves its core: a core that one
task keeps busy reads as idle for as long as it stays. So it is not used.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from flyball.monitor.sensor import KeptFile, Site, kept

TICK_S = 0.01
"""Unit of /proc/stat (USER_HZ, the same on every Linux)."""
CORES_SIZE = 1 << 16
"""Bytes that hold the lines of /proc/stat for several hundred cores."""
GROUPS = ("fs/cgroup/cpuacct", "fs/cgroup/cpu,cpuacct")
LEAST_SHARE = 0.9
"""A group that saw less of the machine's CPU time than this is not that of the whole machine."""


class CpuTime(Protocol):
    """Seconds each core was busy since some moment.

    Attributes:
        cores: numbers of the cores, in the order of the values.
    """

    cores: list[int]
    source: str
    resolution: str

    def read(self) -> list[float]: ...


class GroupTime:
    """Control group accounting: nanoseconds, brought up to date at each switch and each tick."""

    source = "cpuacct.usage_percpu"
    resolution = "1 ns, brought up to date at each task switch and scheduler tick (1 to 10 ms)"

    def __init__(self, file: KeptFile, cores: list[int]) -> None:
        self._file = file
        self.cores = cores

    def read(self) -> list[float]:
        values = self._file.read().split()
        return [int(values[core]) / 1e9 for core in self.cores]


class TickTime:
    """`/proc/stat`: all but idle, waiting for input or output, and stolen time; in ticks."""

    source = "/proc/stat"
    resolution = "10 ms"

    def __init__(self, file: KeptFile, cores: list[int]) -> None:
        self._file = file
        self.cores = cores

    def read(self) -> list[float]:
        lines = self._file.read().split(b"\n", len(self.cores) + 1)
        return [_busy_s(line) for line in lines[1 : len(self.cores) + 1]]


def open_cpu_time(site: Site) -> CpuTime:
    """The best source here."""
    stat = KeptFile(site.proc("stat"), CORES_SIZE)
    lines = stat.read().split(b"\n")
    cores = [int(line.split(b" ", 1)[0][3:]) for line in lines[1:] if line.startswith(b"cpu")]
    for group in GROUPS:
        file = kept(site.sys(f"{group}/cpuacct.usage_percpu"), CORES_SIZE)
        if file is not None:
            found = GroupTime(file, cores)
            # In a container the group may be the container's own.
            if sum(found.read()) >= LEAST_SHARE * _used_s(lines[0]):
                return found
    return TickTime(stat, cores)


def _busy_s(line: bytes) -> float:
    """User, nice, system and interrupts of one line of /proc/stat.

    Time that a hypervisor gave to others is not use of ours: it is `steal_s_total`.
    """
    user, nice, system, _idle, _wait, irq, soft = map(int, line.split()[1:8])
    return (user + nice + system + irq + soft) * TICK_S


def _used_s(line: bytes) -> float:
    """What tasks themselves used: user, nice and system."""
    user, nice, system = map(int, line.split()[1:4])
    return (user + nice + system) * TICK_S


class Rolling:
    """Use of each core over the last `window_s`, in percent."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, list[float]]] = deque()

    def add(self, now: float, busy_s: list[float]) -> list[float] | None:
        """The averages with this reading; None until there are two readings."""
        seen = self._seen
        if not seen:
            seen.append((now, busy_s))
            return None
        # A counter that is brought up to date at ticks may run some milliseconds late and then
        # catch up. No core works faster than time goes by: what is beyond that is put off to
        # the next reading, not cut off, or a busy core would read as less than busy.
        last_s, last = seen[-1]
        most_s = max(0.0, now - last_s)
        busy_s = [min(each, old + most_s) for each, old in zip(busy_s, last, strict=True)]
        seen.append((now, busy_s))
        # The oldest reading kept is the last one that is a window old; a tenth less will do, or
        # a reading that comes a little early would double the span.
        limit = now - 0.9 * self._window_s
        while len(seen) > 2 and seen[1][0] <= limit:
            seen.popleft()
        then, before = seen[0]
        span_s = now - then
        if span_s <= 0:
            return None
        scale = 100.0 / span_s
        return [max(0.0, (each - old) * scale) for each, old in zip(busy_s, before, strict=True)]
