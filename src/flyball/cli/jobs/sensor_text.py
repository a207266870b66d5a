"""Current measurements as text: of GPUs, and of a job's processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from flyball.cli.formats import size_text

Sensors = Mapping[str, Any]
"""The newest value of each series, by name; None = not a number."""
DEVICE = re.compile(r"(nvidia|amd)\.gpu([0-9]{1,4})\.([a-z0-9_]+)")
MIB = 2**20


def device_lines(sensors: Sensors) -> Iterator[str]:
    """Yield a line per GPU: use, memory, power, and memory held by processes that are not jobs."""
    devices: dict[tuple[str, int], dict[str, float]] = {}
    for name, value in sensors.items():
        if value is not None and (parts := DEVICE.fullmatch(name)):
            devices.setdefault((parts[1], int(parts[2])), {})[parts[3]] = value
    for (maker, number), values in sorted(devices.items()):
        yield f"{maker} gpu{number}  {', '.join(device_text(values))}"


def device_text(values: Mapping[str, float]) -> Iterator[str]:
    """Yield what is measured of one GPU."""
    if "use_percent" in values:
        yield f"{values['use_percent']:.0f} %"
    if "memory_used_bytes" in values:
        total = f" of {_bytes(values['memory_bytes'])}" if values.get("memory_bytes") else ""
        yield f"memory {_bytes(values['memory_used_bytes'])}{total}"
    if "power_w" in values:
        yield f"{values['power_w']:.0f} W"
    if values.get("outsiders_bytes", 0) > 0:
        yield f"outsiders hold {_bytes(values['outsiders_bytes'])}"


def uses_text(sensors: Sensors, job: int) -> str:
    """Return what a job's processes use now, if measured: `1.8 cores, 3.2G`."""
    cores = sensors.get(f"jobs.{job}.cpu_s_per_s")
    memory = sensors.get(f"jobs.{job}.memory_bytes")
    parts = [] if cores is None else [f"{cores:.1f} cores"]
    return ", ".join(parts if memory is None else [*parts, _bytes(memory)])


def _bytes(value: float) -> str:
    return size_text(value / MIB) if value else "0M"
