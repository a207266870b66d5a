"""Memory bandwidth, where the processor counts it (Intel RDT and AMD QoS, through resctrl)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import KeptFile, Null, Site, kept

FOLDER = "fs/resctrl/mon_data"
ABSENT = (
    "no memory bandwidth counters: resctrl is not mounted, or the processor (or its hypervisor) "
    "has no bandwidth monitoring"
)


class Bandwidth:
    """Bytes transferred by each memory domain's controllers since boot."""

    family: ClassVar[str] = "memory"
    least_s: ClassVar[float] = 0.2
    blocks: ClassVar[bool] = True

    def __init__(self, domains: Mapping[str, KeptFile]) -> None:
        self._domains = domains
        self.about: Mapping[str, str] = {"source": "resctrl mbm_total_bytes"}

    @classmethod
    def open(cls, site: Site) -> Bandwidth | Null:
        paths = sorted(site.sys(FOLDER).glob("mon_L3_*/mbm_total_bytes"))
        files = {path.parent.name.removeprefix("mon_L3_"): kept(path) for path in paths}
        domains = {str(int(name)): file for name, file in files.items() if file is not None}
        return cls(domains) if domains else Null("bandwidth", ABSENT)

    def collect(self, now: float) -> Sample:
        values = {
            f"domain{name}_bytes_total": file.number() for name, file in self._domains.items()
        }
        return Sample("bandwidth", now, values)
