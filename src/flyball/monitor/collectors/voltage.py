"""Voltages that the mainboard's monitoring chips measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.hwmon import chip_inputs
from flyball.monitor.sensor import KeptFile, Null, Site

ABSENT = "no voltage sensor in /sys/class/hwmon (virtual machine, or no driver for the board)"


class Voltage:
    """Volts by sensor."""

    family: ClassVar[str] = "power"
    least_s: ClassVar[float] = 1.0
    blocks: ClassVar[bool] = True

    def __init__(self, inputs: Mapping[str, KeptFile]) -> None:
        self._inputs = inputs
        self.about: Mapping[str, str] = {"source": "hwmon", "resolution": "1 mV"}

    @classmethod
    def open(cls, site: Site) -> Voltage | Null:
        inputs = chip_inputs(site, "in")
        return cls(inputs) if inputs else Null("voltage", ABSENT)

    def collect(self, now: float) -> Sample:
        values = {f"{name}_v": file.number() / 1e3 for name, file in self._inputs.items()}
        return Sample("voltage", now, values)
