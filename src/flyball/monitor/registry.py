"""The registry of collectors: one line each, imported on first use.

A collector is a class in a file of `collectors/`; `Sensor` in `monitor/sensor.py` is its interface.
Other packages add theirs with the entry-point group `flyball.collectors` (name -> `module:Class`).
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
    """Return the names of all collectors: the built-in ones first, in registry order."""
    return [*BUILT_IN, *sorted(set(_outside()) - set(BUILT_IN))]


def get_collector(name: str) -> type[Sensor]:
    """Return a collector's class; its `open(site)` returns the collector, or a null object.

    A class that cannot be imported, or does not implement `Sensor`, opens as a null object with
    the reason: a bug in another package must not stop the monitoring of everything else.

    Raises:
        UnknownName: there is no collector of this name.
    """
    where = BUILT_IN.get(name) or _outside().get(name)
    if where is None:
        raise UnknownName("collector", name, names())
    module, _, attribute = where.partition(":")
    try:
        cls = getattr(import_module(module), attribute)
    except Exception as error:
        return _broken(name, f"{where} cannot be loaded: {type(error).__name__}: {error}")
    problem = _problem_of(cls)
    return _broken(name, f"{where} {problem}") if problem else cast(type[Sensor], cls)


def is_outside(name: str) -> bool:
    """Return whether a collector is another package's, so that its samples are checked."""
    return name not in BUILT_IN


def _problem_of(cls: Any) -> str:
    """Return why a class is not a collector, "" if it is one."""
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
    """Return a collector class that always opens as a null object with this reason."""

    class Broken:
        family: ClassVar[str] = next(iter(FAMILIES))
        least_s: ClassVar[float] = 0.0
        blocks: ClassVar[bool] = False
        about: Mapping[str, str] = {}

        @classmethod
        def open(cls, site: Site) -> Null:
            return Null(name, reason)

        def collect(self, now: float) -> Sample:
            raise AssertionError("it is never opened")

    return cast(type[Sensor], Broken)


def _outside() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group="flyball.collectors")}
