"""Power draw of the host: measured by the processor (RAPL), else modelled from CPU use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.cpu_time import CpuTime, open_cpu_time
from flyball.monitor.hwmon import plain
from flyball.monitor.sensor import HostPower, KeptFile, Null, Site, kept, text_of

ABSENT = "no readable energy counter in /sys/class/powercap (virtual machine, or not root)"
REMEDY = "state the host's draw to have it modelled: --host-watts IDLE:PEAK"


class RaplZone:
    """One RAPL counter of microjoules, which wraps to zero after `most_uj`."""

    def __init__(self, name: str, file: KeptFile, most_uj: int) -> None:
        self.name = name
        self._file, self._most_uj = file, most_uj
        self._last_uj = file.number()
        self._sum_uj = 0

    def energy_j(self) -> float:
        """Return the energy since the collector was opened."""
        now_uj = self._file.number()
        moved = now_uj - self._last_uj
        self._sum_uj += moved if moved >= 0 else moved + self._most_uj
        self._last_uj = now_uj
        return self._sum_uj / 1e6


class Power:
    """`NAME_energy_j_total` and `NAME_w` (average since the last read) by RAPL zone."""

    family: ClassVar[str] = "power"
    least_s: ClassVar[float] = 0.5
    blocks: ClassVar[bool] = True

    def __init__(self, zones: list[RaplZone]) -> None:
        self._zones = zones
        self._last: tuple[float, dict[str, float]] | None = None
        self.about: Mapping[str, str] = {
            "source": "RAPL (/sys/class/powercap)",
            "resolution": "61 uJ, about 1 ms",
            "kind": "measured",
        }

    @classmethod
    def open(cls, site: Site) -> Power | ModelledPower | Null:
        zones: list[RaplZone] = []
        for path in sorted(site.sys("class/powercap").glob("*-rapl:*")):
            file = kept(path / "energy_uj")
            if file is not None:
                number = path.name.partition(":")[2].replace(":", "_")
                name = plain(f"{text_of(path / 'name', 'zone')}_{number}")
                most_uj = int(text_of(path / "max_energy_range_uj", "0"))
                zones.append(RaplZone(name, file, most_uj))
        if zones:
            return cls(zones)
        if site.host_power is None:
            return Null("power", f"{ABSENT}; {REMEDY}")
        return ModelledPower(open_cpu_time(site), site.host_power)

    def collect(self, now: float) -> Sample:
        energy = {zone.name: zone.energy_j() for zone in self._zones}
        values = {f"{name}_energy_j_total": energy_j for name, energy_j in energy.items()}
        if self._last is not None and now > self._last[0]:
            then, before = self._last
            for name, energy_j in energy.items():
                values[f"{name}_w"] = (energy_j - before[name]) / (now - then)
        self._last = now, energy
        return Sample("power", now, values)


class ModelledPower:
    """Models the draw where it is not measured: idle draw plus CPU use times the rest."""

    family: ClassVar[str] = "power"
    least_s: ClassVar[float] = 0.5
    blocks: ClassVar[bool] = False

    def __init__(self, time: CpuTime, host: HostPower) -> None:
        self._time, self._host = time, host
        self._last: tuple[float, float] | None = None
        self._energy_j = 0.0
        self.about: Mapping[str, str] = {
            "source": f"{host.idle_w:g} W idle to {host.peak_w:g} W at full CPU use, {host.source}",
            "kind": f"modelled: {ABSENT}",
        }

    def collect(self, now: float) -> Sample:
        busy_s, values = sum(self._time.read()), {}
        if self._last is not None and now > self._last[0]:
            span_s = now - self._last[0]
            use = (busy_s - self._last[1]) / (span_s * len(self._time.cores))
            host = self._host
            power_w = host.idle_w + (host.peak_w - host.idle_w) * min(1.0, max(0.0, use))
            self._energy_j += power_w * span_s
            values = {"host_modelled_w": power_w, "host_modelled_energy_j_total": self._energy_j}
        self._last = now, busy_s
        return Sample("power", now, values)
