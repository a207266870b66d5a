"""Use of the cores, tasks that wait for them, and context switches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.cpu_time import (
    CORES_SIZE,
    TICK_S,
    CpuTime,
    Rolling,
    open_cpu_time,
)
from flyball.monitor.sensor import KeptFile, Null, Site, kept, pressure_s

REST_S = 0.5
"""Everything but the use of cores is read at most this often: the kernel itself updates the load
every 5 s, totals lose nothing, and three more files would double the cost of a read."""
SWITCHES = re.compile(rb"\nctxt (\d+)\nbtime \d+\nprocesses (\d+)\nprocs_running (\d+)")
TIMES = ("user_s_total", "system_s_total", "iowait_s_total", "steal_s_total")
REST = ("switches_total", "forks_total", "runnable", *TIMES, "load_1m")


class Compute:
    """`total_percent` and `coreN_percent`: rolling averages of use."""

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False

    def __init__(self, time: CpuTime, window_s: float, files: Mapping[str, KeptFile | None]):
        self._time = time
        self._rolling = Rolling(window_s)
        self._stat, self._load = files["stat"], files["loadavg"]
        self._pressure = files["pressure/cpu"]
        self._names = ("total_percent", *(f"core{core}_percent" for core in time.cores))
        self._rest_due = -1.0
        self.about: Mapping[str, str] = {
            "source": time.source,
            "resolution": time.resolution,
            "average": f"over {window_s * 1e3:g} ms",
        }

    @classmethod
    def open(cls, site: Site) -> Compute | Null:
        names = ("stat", "loadavg", "pressure/cpu")
        files = {name: kept(site.proc(name), CORES_SIZE) for name in names}
        if files["stat"] is None:
            return Null("compute", f"no {site.proc('stat')}: not a Linux machine")
        return cls(open_cpu_time(site), site.window_s, files)

    def collect(self, now: float) -> Sample:
        values: dict[str, float] = {}
        percent = self._rolling.add(now, self._time.read())
        if percent is not None:
            values = dict(zip(self._names, (sum(percent) / len(percent), *percent), strict=True))
        if now >= self._rest_due:
            self._rest_due = now + 0.9 * REST_S
            values.update(self._rest())
        return Sample("compute", now, values)

    def _rest(self) -> dict[str, float]:
        assert self._stat is not None
        data = self._stat.read()
        counts = SWITCHES.search(data)
        if counts is None:
            raise ValueError("/proc/stat without ctxt, processes and procs_running")
        user, nice, system, _idle, wait, _irq, _soft, steal = map(int, data.split(None, 9)[1:9])
        ticks = (user + nice, system, wait, steal)
        load = float(self._load.read().split(None, 1)[0]) if self._load else float("nan")
        values = (*map(int, counts.groups()), *(count * TICK_S for count in ticks), load)
        rest = dict(zip(REST, values, strict=True))
        if self._pressure is not None:
            rest["stalled_s_total"] = pressure_s(self._pressure)
        return rest
