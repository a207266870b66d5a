"""Whether what the agent reads agrees with psutil, window by window.

Two counts of CPU time are compared, because the kernel keeps two. What the agent reads in ticks
must be what psutil reads in ticks. The use of the cores comes from finer counters, and there the
kernel itself can be of two minds: without precise accounting it takes what a hypervisor stole,
even while a core had nothing to do, off the next tick that somebody worked. psutil's figure is
then off by up to the stolen share, so windows with more stolen time than the bar decide nothing.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import psutil

from flyball.monitor.reader import Telemetry

NOT_USE = ("idle", "iowait", "steal")
"""Kinds of CPU time that are not use. psutil's own percentage counts stolen time, which a
hypervisor gave to others, as if it were."""
BAR_PERCENT = 1.0
AGREE = ("cpu_percent", "cpu_ticks_percent", "memory_percent", "network_percent", "disk_percent")
TICKS = ("compute.user_s_total", "compute.system_s_total")
KEEP_S = 3600.0

Series = tuple[Any, Any]


class Look(NamedTuple):
    """What psutil says at one moment."""

    time_s: float
    busy_s: float
    tasks_s: float
    """User, nice and system: what tasks themselves used."""
    stolen_s: float
    all_s: float
    available_bytes: int
    network_bytes: int
    disk_bytes: int


def look() -> Look:
    """Now."""
    times, network, disk = psutil.cpu_times(), psutil.net_io_counters(), psutil.disk_io_counters()
    whole = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
    return Look(
        time.time(),
        whole - sum(getattr(times, kind, 0.0) for kind in NOT_USE),
        times.user + getattr(times, "nice", 0.0) + times.system,
        getattr(times, "steal", 0.0),
        whole,
        psutil.virtual_memory().available,
        network.bytes_recv if network else 0,
        disk.write_bytes if disk else 0,
    )


class Window(NamedTuple):
    """One window by both: percent of full scale, which is all cores, all memory, and for traffic
    what the window itself counted: stricter than the speed of a link, which a virtual machine
    does not tell."""

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


def agreement(looks: list[Look], telemetry: Telemetry) -> dict[str, Any]:
    """The largest difference over windows by what was compared, and both readings of CPU."""
    windows = _windows(looks, telemetry)
    calm = [each for each in windows if each.stolen <= BAR_PERCENT]
    deciding = calm or [min(windows, key=lambda each: each.stolen)]
    return {
        "windows": len(windows),
        "window_s": looks[1].time_s - looks[0].time_s,
        "cpu_percent": max(each.cpu_off for each in deciding),
        "cpu_windows": len(deciding),
        "cpu_stolen_percent": max(each.stolen for each in deciding),
        "cpu_percent_all_windows": max(each.cpu_off for each in windows),
        "cpu_ticks_percent": max(each.cpu_ticks_off for each in windows),
        "memory_percent": max(each.memory_off for each in windows),
        "network_percent": max(each.network_off for each in windows),
        "disk_percent": max(each.disk_off for each in windows),
        "cpu": [
            {"use": each.use, "psutil": each.psutil_use, "stolen": each.stolen} for each in windows
        ],
    }


def _windows(looks: list[Look], telemetry: Telemetry) -> list[Window]:
    span_s = looks[-1].time_s - looks[0].time_s + KEEP_S
    use = telemetry.series("compute.total_percent", span_s)
    free = telemetry.series("memory.available_bytes", span_s)
    total = float(telemetry.series("memory.total_bytes", span_s)[1][-1])
    names = [name for name in telemetry.names() if name.startswith("network.")]
    traffic = [name for name in names if name.count(".") == 2 and name.endswith("rx_bytes_total")]
    network = [telemetry.series(name, span_s) for name in traffic]
    disk = [telemetry.series("disk.written_bytes_total", span_s)]
    ticks = [telemetry.series(name, span_s) for name in TICKS]
    found = []
    for old, new in pairwise(looks):
        inside = (use[0] > old.time_s) & (use[0] <= new.time_s)
        scale = 100.0 / (new.all_s - old.all_s)
        ticks_s = _change(ticks, old, new) - (new.tasks_s - old.tasks_s)
        free_off = abs(_at(free, new.time_s) - new.available_bytes)
        found.append(
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
    return found


def _off(totals: list[Series], old: Look, new: Look, theirs: float) -> float:
    """How far the change of some totals is from psutil's, in percent of the latter."""
    return 100.0 * abs(_change(totals, old, new) - theirs) / max(theirs, 1.0)


def _change(totals: list[Series], old: Look, new: Look) -> float:
    return sum(_at(each, new.time_s) - _at(each, old.time_s) for each in totals)


def _at(series: Series, time_s: float) -> float:
    """The value nearest to a time."""
    return float(series[1][int(np.abs(series[0] - time_s).argmin())])
