"""The shelf of collectors: one line each, loaded when asked for.

A collector is a class in a file of `collectors/` (`monitor/sensor.py` says what it has). Outside
packages add theirs under the entry-point group `flyball.collectors` (name -> `module:Class`).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, cast

from flyball.core.errors import UnknownName
from flyball.core.protocols import Sample
from flyball.monitor.rates import FAMILIES
from flyball.monitor.sensor import Null, Sensor, Site

BUILT_IN = {
    "compute": "flyball.monitor.collectors.compute:Compute",
    "counters": "flyball.monitor.collectors.counters:Counters",
    "nvidia": "flyball.monitor.collectors.nvidia:Nvidia",
    "amd": "flyball.monitor.collectors.amd:Amd",
    "memory": "flyball.monitor.collectors.memory:Memory",
    "bandwidth": "flyball.monitor.collectors.bandwidth:Bandwidth",
    "network": "flyball.monitor.collectors.network:Network",
    "disk": "flyball.monitor.collectors.disk:Disk",
    "power": "flyball.monitor.collectors.power:Power",
    "temperature": "flyball.monitor.collectors.temperature:Temperature",
    "voltage": "flyball.monitor.collectors.voltage:Voltage",
    "jobs": "flyball.monitor.collectors.jobs:Jobs",
    "application": "flyball.monitor.collectors.application:Application",
}


def names() -> list[str]:
    """Every collector's name: the built-in ones first, in the order of the shelf."""
    return [*BUILT_IN, *sorted(set(_outside()) - set(BUILT_IN))]


def get_collector(name: str) -> type[Sensor]:
    """The collector's class; `open(site)` makes the collector, or a null object that says why.

    One that cannot be loaded, or that is not as `monitor/sensor.py` says, is a null object too:
    somebody else's mistake must not end the monitoring of everything else.

    Raises:
        UnknownName: there is none of this name.
    """
    where = BUILT_IN.get(name) or _outside().get(name)
    if where is None:
        raise UnknownName("collector", name, names())
    module, _, attribute = where.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:
        return _broken(name, f"{where} cannot be loaded: {type(error).__name__}: {error}")
    wrong = _wrong(found)
    return _broken(name, f"{where} {wrong}") if wrong else cast(type[Sensor], found)


def is_outside(name: str) -> bool:
    """Whether it is another package's, so that what it returns is checked."""
    return name not in BUILT_IN


def _wrong(cls: Any) -> str:
    """What keeps a class from being a collector, "" if nothing does."""
    family = getattr(cls, "family", None)
    if family not in FAMILIES:
        return f"has family {family!r}; use one of {', '.join(FAMILIES)}"
    least_s = getattr(cls, "least_s", None)
    if not isinstance(least_s, int | float) or not 0 <= least_s < float("inf"):
        return f"has least_s {least_s!r}; use seconds"
    if not isinstance(getattr(cls, "blocks", None), bool):
        return "does not say whether it blocks"
    return "" if callable(getattr(cls, "open", None)) else "has no open(site)"


def _broken(name: str, reason: str) -> type[Sensor]:
    """A collector that is never there, and says why."""

    class Broken:
        family: ClassVar[str] = next(iter(FAMILIES))
        least_s: ClassVar[float] = 0.0
        blocks: ClassVar[bool] = False
        about: Mapping[str, str] = {}

        @classmethod
        def open(cls, site: Site) -> Null:
            return Null(name, reason)

        def collect(self, now: float) -> Sample:
            raise AssertionError("it is never made")

    return cast(type[Sensor], Broken)


def _outside() -> dict[str, str]:
    return {each.name: each.value for each in entry_points(group="flyball.collectors")}
