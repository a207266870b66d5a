"""Compares what the agent reads with psutil, window by window.

Two counts of CPU time are compared, because the kernel keeps two. What the agent reads in ticks
must equal what psutil reads in ticks. The use of the cores comes from finer counters, and the two
may disagree in the kernel itself: without precise accounting it subtracts time stolen by a
hypervisor, even while a core was idle, from the next tick in which a task ran. psutil's figure is
then off by up to the stolen share, so windows with more stolen time than the bar do not count.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import psutil

from flyball.monitor.reader import Telemetry

NOT_USE = ("idle", "iowait", "steal")
"""Kinds of CPU time that are not use. psutil's percentage counts stolen time, which a hypervisor
gave to other guests, as use."""
BAR_PERCENT = 1.0
AGREE = ("cpu_percent", "cpu_ticks_percent", "memory_percent", "network_percent", "disk_percent")
TICKS = ("compute.user_s_total", "compute.system_s_total")
KEEP_S = 3600.0
"""History to read before the first window."""

Series = tuple[Any, Any]


class Reading(NamedTuple):
    """psutil's counters at one moment."""

    time_s: float
    busy_s: float
    tasks_s: float
    """User, nice and system time: what tasks used."""
    stolen_s: float
    all_s: float
    available_bytes: int
    network_bytes: int
    disk_bytes: int


def read_now() -> Reading:
    """Read psutil's counters."""
    times, network, disk = psutil.cpu_times(), psutil.net_io_counters(), psutil.disk_io_counters()
    total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return Reading(
        time.time(),
        total - sum(getattr(times, kind, 0.0) for kind in NOT_USE),
        times.user + getattr(times, "nice", 0.0) + times.system,
        getattr(times, "steal", 0.0),
        total,
        psutil.virtual_memory().available,
        network.bytes_recv if network else 0,
        disk.write_bytes if disk else 0,
    )


class Window(NamedTuple):
    """One window by both, in percent of full scale: all cores, all memory, and for traffic what
    the window counted, stricter than the speed of a link, which virtual machines do not report."""

    use: float
    psutil_use: float
    stolen: float
    cpu_ticks_off: float
    memory_off: float
    network_off: float
    disk_off: float

    @property
    def cpu_off(self) -> float:
        return abs(self.use - self.psutil_use)


def agreement(readings: list[Reading], telemetry: Telemetry) -> dict[str, Any]:
    """Return the largest difference over windows of each counter, and both readings of CPU."""
    windows = _windows(readings, telemetry)
    calm = [window for window in windows if window.stolen <= BAR_PERCENT]
    deciding = calm or [min(windows, key=lambda window: window.stolen)]
    return {
        "windows": len(windows),
        "window_s": readings[1].time_s - readings[0].time_s,
        "cpu_percent": max(window.cpu_off for window in deciding),
        "cpu_windows": len(deciding),
        "cpu_stolen_percent": max(window.stolen for window in deciding),
        "cpu_percent_all_windows": max(window.cpu_off for window in windows),
        "cpu_ticks_percent": max(window.cpu_ticks_off for window in windows),
        "memory_percent": max(window.memory_off for window in windows),
        "network_percent": max(window.network_off for window in windows),
        "disk_percent": max(window.disk_off for window in windows),
        "cpu": [
            {"use": window.use, "psutil": window.psutil_use, "stolen": window.stolen}
            for window in windows
        ],
    }


def _windows(readings: list[Reading], telemetry: Telemetry) -> list[Window]:
    span_s = readings[-1].time_s - readings[0].time_s + KEEP_S
    use = telemetry.series("compute.total_percent", span_s)
    free = telemetry.series("memory.available_bytes", span_s)
    total = float(telemetry.series("memory.total_bytes", span_s)[1][-1])
    names = [name for name in telemetry.names() if name.startswith("network.")]
    traffic = [name for name in names if name.count(".") == 2 and name.endswith("rx_bytes_total")]
    network = [telemetry.series(name, span_s) for name in traffic]
    disk = [telemetry.series("disk.written_bytes_total", span_s)]
    ticks = [telemetry.series(name, span_s) for name in TICKS]
    windows = []
    for old, new in pairwise(readings):
        inside = (use[0] > old.time_s) & (use[0] <= new.time_s)
        scale = 100.0 / (new.all_s - old.all_s)
        ticks_s = _change(ticks, old, new) - (new.tasks_s - old.tasks_s)
        free_off = abs(_at(free, new.time_s) - new.available_bytes)
        windows.append(
            Window(
                use=float(use[1][inside].mean()),
                psutil_use=scale * (new.busy_s - old.busy_s),
                stolen=scale * (new.stolen_s - old.stolen_s),
                cpu_ticks_off=scale * abs(ticks_s),
                memory_off=100.0 * free_off / total,
                network_off=_off(network, old, new, new.network_bytes - old.network_bytes),
                disk_off=_off(disk, old, new, new.disk_bytes - old.disk_bytes),
            )
        )
    return windows


def _off(totals: list[Series], old: Reading, new: Reading, theirs: float) -> float:
    """Return how far the change of some totals is from psutil's, in percent of the latter."""
    return 100.0 * abs(_change(totals, old, new) - theirs) / max(theirs, 1.0)


def _change(totals: list[Series], old: Reading, new: Reading) -> float:
    return sum(_at(series, new.time_s) - _at(series, old.time_s) for series in totals)


def _at(series: Series, time_s: float) -> float:
    """Return the value nearest to a time."""
    return float(series[1][int(np.abs(series[0] - time_s).argmin())])
