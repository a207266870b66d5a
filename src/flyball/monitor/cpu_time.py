"""Reads the CPU time used by each core, from the finest counter of this kernel.

`/proc/schedstat` also counts nanoseconds, but only when a task leaves its core: a core that one
task keeps busy would read as idle all the time. So it is not used.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from flyball.monitor.sensor import KeptFile, Site, kept

TICK_S = 0.01
"""Unit of /proc/stat (USER_HZ, the same on every Linux)."""
CORES_SIZE = 1 << 16
"""Size of the read buffer for /proc/stat, enough for several hundred cores."""
GROUPS = ("fs/cgroup/cpuacct", "fs/cgroup/cpu,cpuacct")
LEAST_SHARE = 0.9
"""A group with less than this share of the machine's CPU time is not the root group."""


class CpuTime(Protocol):
    """Reads the seconds that each core was busy since a fixed point in time.

    Attributes:
        cores: numbers of the cores, in the order of the values.
    """

    cores: list[int]
    source: str
    resolution: str

    def read(self) -> list[float]: ...


class GroupTime:
    """Reads control group accounting: nanoseconds, updated at each task switch and tick."""

    source = "cpuacct.usage_percpu"
    resolution = "1 ns, brought up to date at each task switch and scheduler tick (1 to 10 ms)"

    def __init__(self, file: KeptFile, cores: list[int]) -> None:
        self._file = file
        self.cores = cores

    def read(self) -> list[float]:
        values = self._file.read().split()
        return [int(values[core]) / 1e9 for core in self.cores]


class TickTime:
    """Reads `/proc/stat`: all time but idle, I/O wait and stolen time, in ticks."""

    source = "/proc/stat"
    resolution = "10 ms"

    def __init__(self, file: KeptFile, cores: list[int]) -> None:
        self._file = file
        self.cores = cores

    def read(self) -> list[float]:
        lines = self._file.read().split(b"\n", len(self.cores) + 1)
        return [_busy_s(line) for line in lines[1 : len(self.cores) + 1]]


def open_cpu_time(site: Site) -> CpuTime:
    """Return the best source on this machine."""
    stat = KeptFile(site.proc("stat"), CORES_SIZE)
    lines = stat.read().split(b"\n")
    cores = [int(line.split(b" ", 1)[0][3:]) for line in lines[1:] if line.startswith(b"cpu")]
    for group in GROUPS:
        file = kept(site.sys(f"{group}/cpuacct.usage_percpu"), CORES_SIZE)
        if file is not None:
            group_time = GroupTime(file, cores)
            # In a container this may be the container's group, not the machine's.
            if sum(group_time.read()) >= LEAST_SHARE * _used_s(lines[0]):
                return group_time
    return TickTime(stat, cores)


def _busy_s(line: bytes) -> float:
    """Return user, nice, system and interrupt time of one line of /proc/stat.

    Time that a hypervisor gave to other machines is not included: it is `steal_s_total`.
    """
    user, nice, system, _idle, _wait, irq, soft = map(int, line.split()[1:8])
    return (user + nice + system + irq + soft) * TICK_S


def _used_s(line: bytes) -> float:
    """Return the time that tasks used: user, nice and system."""
    user, nice, system = map(int, line.split()[1:4])
    return (user + nice + system) * TICK_S


class Rolling:
    """Computes the use of each core over the last `window_s`, in percent."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, list[float]]] = deque()

    def add(self, now: float, busy_s: list[float]) -> list[float] | None:
        """Add a reading and return the averages; None until there are two readings."""
        seen = self._seen
        if not seen:
            seen.append((now, busy_s))
            return None
        # A counter that is updated at ticks may lag by some milliseconds and then catch up. No
        # core is busy for longer than the elapsed time: the excess is carried over to the next
        # reading, not cut off, or a busy core would read as less than 100 %.
        last_s, last = seen[-1]
        most_s = max(0.0, now - last_s)
        busy_s = [min(new, old + most_s) for new, old in zip(busy_s, last, strict=True)]
        seen.append((now, busy_s))
        # Keep the latest reading that is a window old, with a tolerance of a tenth: otherwise a
        # reading that comes a little early would double the span.
        limit = now - 0.9 * self._window_s
        while len(seen) > 2 and seen[1][0] <= limit:
            seen.popleft()
        then, before = seen[0]
        span_s = now - then
        if span_s <= 0:
            return None
        scale = 100.0 / span_s
        return [max(0.0, (new - old) * scale) for new, old in zip(busy_s, before, strict=True)]
