"""AMD devices, read from the files of the kernel's driver, without a further library."""

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
"""For each value, the file in the device's folder, and its unit in terms of ours."""
HELD = re.compile(r"^drm-(?:memory|resident)-vram:\s+(\d+) KiB$", re.MULTILINE)
DEVICE = re.compile(r"^drm-pdev:\s+(\S+)$", re.MULTILINE)
CLIENT = re.compile(r"^drm-client-id:\s+(\d+)$", re.MULTILINE)


class Amd:
    """`gpuN.use_percent`, `.memory_used_bytes`, `.outsiders_bytes`, `.power_w`, ...

    The driver reports the memory of each open device file; memory in use beyond that of our jobs
    belongs to outsiders.
    """

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.5
    blocks: ClassVar[bool] = True

    def __init__(self, devices: list[Path], proc: Path, ours: Callable[[], frozenset[int]]) -> None:
        self._proc, self._ours = proc, ours
        self._files = [_figures(device) for device in devices]
        self._slots = [device.resolve().name for device in devices]
        self.uuids = tuple(
            text_of(device / "unique_id") or slot
            for device, slot in zip(devices, self._slots, strict=True)
        )
        named = {f"gpu{index}": uuid for index, uuid in enumerate(self.uuids)}
        self.about: Mapping[str, str] = {"source": "amdgpu in sysfs", "kind": "measured", **named}

    @classmethod
    def open(cls, site: Site) -> Amd | Null:
        # The folder also holds connectors (card0-DP-1).
        entries = sorted(site.sys("class/drm").glob("card[0-9]*"))
        cards = [entry / "device" for entry in entries if entry.name[4:].isdigit()]
        devices = [card for card in cards if (card / "mem_info_vram_used").exists()]
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
        """Return the bytes that our jobs hold, by PCI slot."""
        held: dict[str, int] = {}
        seen: set[tuple[str, str]] = set()
        for pid in self._ours():
            for text in _open_devices(self._proc / str(pid)):
                device, client, size = (regex.search(text) for regex in (DEVICE, CLIENT, HELD))
                if device is None or size is None:
                    continue
                # A duplicated or inherited descriptor is the same client.
                key = device[1], client[1] if client else str(len(seen))
                if key not in seen:
                    seen.add(key)
                    held[device[1]] = held.get(device[1], 0) + int(size[1]) * 1024
        return held


def _figures(device: Path) -> dict[str, tuple[KeptFile, float]]:
    files = {}
    for name, (pattern, scale) in FIGURES.items():
        for path in sorted(device.glob(pattern))[:1]:
            file = kept(path)
            if file is not None:
                files[name] = file, scale
    return files


def _open_devices(process: Path) -> list[str]:
    """Return the kernel's text about each open graphics device of a process."""
    texts = []
    try:
        for name in os.listdir(process / "fd"):
            if os.readlink(process / "fd" / name).startswith("/dev/dri/"):
                texts.append((process / "fdinfo" / name).read_text())
    except OSError:
        return texts  # the process has ended, or we may not read it
    return texts
