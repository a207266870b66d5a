"""Temperatures of chips and of the firmware's thermal zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.hwmon import chip_inputs, plain
from flyball.monitor.sensor import KeptFile, Null, Site, kept, text_of

ABSENT = "no temperature sensor in /sys/class/hwmon or /sys/class/thermal (virtual machine?)"


class Temperature:
    """Degrees Celsius by sensor."""

    family: ClassVar[str] = "power"
    least_s: ClassVar[float] = 1.0
    blocks: ClassVar[bool] = True

    def __init__(self, inputs: Mapping[str, KeptFile]) -> None:
        self._inputs = inputs
        self.about: Mapping[str, str] = {"source": "hwmon, thermal zones", "resolution": "1 mC"}

    @classmethod
    def open(cls, site: Site) -> Temperature | Null:
        inputs = chip_inputs(site, "temp")
        for zone in sorted(site.sys("class/thermal").glob("thermal_zone*")):
            file = kept(zone / "temp")
            if file is not None:
                number = zone.name.removeprefix("thermal_zone")
                inputs[plain(f"zone{number}_{text_of(zone / 'type', 'unknown')}")] = file
        return cls(inputs) if inputs else Null("temperature", ABSENT)

    def collect(self, now: float) -> Sample:
        values = {f"{name}_c": file.number() / 1e3 for name, file in self._inputs.items()}
        return Sample("temperature", now, values)
