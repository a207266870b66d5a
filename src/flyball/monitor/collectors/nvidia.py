"""NVIDIA devices through NVML: use, memory, power, temperature, clocks and foreign processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, ClassVar

from flyball.core.protocols import Sample
from flyball.monitor.sensor import Null, Site


class Nvidia:
    """`gpuN.use_percent`, `.memory_used_bytes`, `.outsiders_bytes`, `.power_w`, ...

    Outsiders are processes that belong to none of our jobs. Values that a device does not measure
    are left out. NVML itself averages use over 1/6 to 1 s.
    """

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.5
    blocks: ClassVar[bool] = True

    def __init__(self, nvml: Any, ours: Callable[[], frozenset[int]]) -> None:
        self._nvml, self._ours = nvml, ours
        count = nvml.nvmlDeviceGetCount()
        self._devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self.uuids = tuple(_text(nvml.nvmlDeviceGetUUID(device)) for device in self._devices)
        named = {f"gpu{index}": uuid for index, uuid in enumerate(self.uuids)}
        self.about: Mapping[str, str] = {"source": "NVML", "kind": "measured", **named}

    @classmethod
    def open(cls, site: Site) -> Nvidia | Null:
        try:
            nvml = site.nvml or import_module("pynvml")
        except ImportError:
            return Null("nvidia", "nvidia-ml-py is not installed")
        try:
            nvml.nvmlInit()
            nvidia = cls(nvml, site.ours)
        except nvml.NVMLError as error:
            return Null("nvidia", f"no NVIDIA device: {error}")
        return nvidia if nvidia.uuids else Null("nvidia", "NVML finds no device")

    def collect(self, now: float) -> Sample:
        values: dict[str, float] = {}
        ours = self._ours()
        for index, device in enumerate(self._devices):
            for name, value in self._measured(device, ours).items():
                values[f"gpu{index}.{name}"] = value
        return Sample("nvidia", now, values)

    def _measured(self, device: Any, ours: frozenset[int]) -> dict[str, float]:
        nvml = self._nvml
        memory = nvml.nvmlDeviceGetMemoryInfo(device)  # raises if the device has gone
        values = {"memory_used_bytes": float(memory.used), "memory_bytes": float(memory.total)}
        outside = self._outsiders(device, ours, memory.used)
        values["outsiders"], values["outsiders_bytes"] = map(float, outside)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates, device)
        if rates is not None:
            values["use_percent"] = rates.gpu
            values["memory_busy_percent"] = rates.memory
        for name, call, scale in (
            ("power_w", nvml.nvmlDeviceGetPowerUsage, 1e-3),
            ("energy_j_total", nvml.nvmlDeviceGetTotalEnergyConsumption, 1e-3),
        ):
            value = self._ask(call, device)
            if value is not None:
                values[name] = value * scale
        for name, call, which in (
            ("temperature_c", nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            ("clock_mhz", nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            ("memory_clock_mhz", nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        ):
            value = self._ask(call, device, which)
            if value is not None:
                values[name] = value
        return values

    def _outsiders(self, device: Any, ours: frozenset[int], used: int) -> tuple[int, int]:
        """Return the number of processes that are not ours, and the bytes they hold.

        Where the driver does not report bytes by process, all use beyond our jobs' counts.
        """
        nvml = self._nvml
        held: dict[int, int | None] = {}
        for call in (
            nvml.nvmlDeviceGetComputeRunningProcesses,
            nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            for process in self._ask(call, device) or ():
                held[process.pid] = process.usedGpuMemory
        outside = {pid: size for pid, size in held.items() if pid not in ours}
        if all(size is not None for size in outside.values()):
            return len(outside), sum(size or 0 for size in outside.values())
        inside = sum(size or 0 for pid, size in held.items() if pid in ours)
        return len(outside), max(0, used - inside)

    def _ask(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return a value, None if the device does not support it."""
        try:
            return call(*arguments)
        except self._nvml.NVMLError_NotSupported:
            return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
