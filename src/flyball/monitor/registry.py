"""The shelf of collectors: one line each, loaded when asked for.

A collector is a class in a file of `collectors/` (`monitor/sensor.py` says what it has). Outside
packages add theirs under the entry-point group `flyball.collectors` (name -> `module:Class`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from flyball.core.errors import UnknownName
from flyball.monitor.sensor import Sensor

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

    Raises:
        UnknownName: there is none of this name.
    """
    where = BUILT_IN.get(name) or _outside().get(name)
    if where is None:
        raise UnknownName("collector", name, names())
    module, _, attribute = where.partition(":")
    return cast(type[Sensor], getattr(import_module(module), attribute))


def _outside() -> dict[str, str]:
    return {each.name: each.value for each in entry_points(group="flyball.collectors")}
