"""AMD devices through the files of the kernel's driver, which need no further library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import KeptFile, Null, Site, kept, text_of

FIGURES = {
    "use_percent": ("gpu_busy_percent", 1.0),
    "memory_busy_percent": ("mem_busy_percent", 1.0),
    "memory_used_bytes": ("mem_info_vram_used", 1.0),
    "memory_bytes": ("mem_info_vram_total", 1.0),
    "power_w": ("hwmon/hwmon*/power1_average", 1e-6),
    "temperature_c": ("hwmon/hwmon*/temp1_input", 1e-3),
    "clock_mhz": ("hwmon/hwmon*/freq1_input", 1e-6),
    "memory_clock_mhz": ("hwmon/hwmon*/freq2_input", 1e-6),
    "voltage_v": ("hwmon/hwmon*/in0_input", 1e-3),
}
"""Name of the value: file under the device's folder, and what one of its units is."""
HELD = re.compile(r"^drm-(?:memory|resident)-vram:\s+(\d+) KiB$", re.MULTILINE)
DEVICE = re.compile(r"^drm-pdev:\s+(\S+)$", re.MULTILINE)
CLIENT = re.compile(r"^drm-client-id:\s+(\d+)$", re.MULTILINE)


class Amd:
    """`gpuN.use_percent`, `.memory_used_bytes`, `.outsiders_bytes`, `.power_w`, ...

    The driver tells what each open device file holds; what is used beyond our jobs' share is
    the outsiders'.
    """

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.5
    blocks: ClassVar[bool] = True

    def __init__(self, devices: list[Path], proc: Path, ours: Callable[[], frozenset[int]]) -> None:
        self._proc, self._ours = proc, ours
        self._files = [_figures(each) for each in devices]
        self._slots = [each.resolve().name for each in devices]
        self.uuids = tuple(
            text_of(each / "unique_id") or slot
            for each, slot in zip(devices, self._slots, strict=True)
        )
        named = {f"gpu{index}": uuid for index, uuid in enumerate(self.uuids)}
        self.about: Mapping[str, str] = {"source": "amdgpu in sysfs", "kind": "measured", **named}

    @classmethod
    def open(cls, site: Site) -> Amd | Null:
        # Connectors (card0-DP-1) are beside the cards.
        found = sorted(site.sys("class/drm").glob("card[0-9]*"))
        cards = [each / "device" for each in found if each.name[4:].isdigit()]
        devices = [each for each in cards if (each / "mem_info_vram_used").exists()]
        if not devices:
            return Null("amd", "no device of the amdgpu driver in /sys/class/drm")
        return cls(devices, site.root / "proc", site.ours)

    def collect(self, now: float) -> Sample:
        held = self._held()
        values: dict[str, float] = {}
        for index, (files, slot) in enumerate(zip(self._files, self._slots, strict=True)):
            for name, (file, scale) in files.items():
                values[f"gpu{index}.{name}"] = file.number() * scale
            used = values[f"gpu{index}.memory_used_bytes"]
            values[f"gpu{index}.outsiders_bytes"] = max(0.0, used - held.get(slot, 0))
        return Sample("amd", now, values)

    def _held(self) -> dict[str, int]:
        """Bytes that our jobs hold, by PCI slot."""
        held: dict[str, int] = {}
        seen: set[tuple[str, str]] = set()
        for pid in self._ours():
            for text in _open_devices(self._proc / str(pid)):
                device, client, size = (each.search(text) for each in (DEVICE, CLIENT, HELD))
                if device is None or size is None:
                    continue
                # A file that was duplicated or inherited is the same client.
                key = device[1], client[1] if client else str(len(seen))
                if key not in seen:
                    seen.add(key)
                    held[device[1]] = held.get(device[1], 0) + int(size[1]) * 1024
        return held


def _figures(device: Path) -> dict[str, tuple[KeptFile, float]]:
    found = {}
    for name, (pattern, scale) in FIGURES.items():
        for path in sorted(device.glob(pattern))[:1]:
            file = kept(path)
            if file is not None:
                found[name] = file, scale
    return found


def _open_devices(process: Path) -> list[str]:
    """What the kernel says of a process's open files that are devices of its graphics drivers."""
    found = []
    try:
        for name in os.listdir(process / "fd"):
            if os.readlink(process / "fd" / name).startswith("/dev/dri/"):
                found.append((process / "fdinfo" / name).read_text())
    except OSError:
        return found  # gone meanwhile, or not ours to look at
    return found
