"""Stands for the module pynvml: two devices, one of which measures little."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

GIB = 1 << 30


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):  # noqa: N801 (NVML's own name)
    pass


class NVMLError_NoPermission(NVMLError):  # noqa: N801
    pass


class FakeNvml:
    """What `collectors/nvidia.py` calls, with NVML's names and units."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NVMLError_NotSupported
    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, devices: int = 2, per_process: bool = True) -> None:
        self.devices, self.per_process = devices, per_process
        self.lost = False
        self.permits = True
        self.limits_mw: dict[int, int] = {}

    def nvmlInit(self) -> None:  # noqa: N802
        if self.devices < 0:
            raise NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.devices

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetUUID(self, device: int) -> str | bytes:  # noqa: N802
        text = f"GPU-0000000{device}-aaaa-bbbb-cccc-dddddddddddd"
        return text.encode() if device else text  # older versions give bytes

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        return int(uuid[4:12])

    def nvmlDeviceGetName(self, device: int) -> str:  # noqa: N802
        return "NVIDIA H100 80GB HBM3"

    def nvmlDeviceGetPowerManagementDefaultLimit(self, device: int) -> int:  # noqa: N802
        return 700_000

    def nvmlDeviceGetPowerManagementLimitConstraints(self, device: int) -> list[int]:  # noqa: N802
        return [200_000, 700_000]

    def nvmlDeviceSetPowerManagementLimit(self, device: int, limit_mw: int) -> None:  # noqa: N802
        if not self.permits:
            raise NVMLError_NoPermission("Insufficient Permissions")
        self.limits_mw[device] = limit_mw

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetMemoryInfo(self, device: int) -> Any:  # noqa: N802
        if self.lost:
            raise NVMLError("GPU is lost")
        return SimpleNamespace(total=80 * GIB, used=(12 if device == 0 else 1) * GIB)

    def nvmlDeviceGetUtilizationRates(self, device: int) -> Any:  # noqa: N802
        self._only_first(device)
        return SimpleNamespace(gpu=93, memory=40)

    def nvmlDeviceGetPowerUsage(self, device: int) -> int:  # noqa: N802
        return 312_500

    def nvmlDeviceGetTotalEnergyConsumption(self, device: int) -> int:  # noqa: N802
        self._only_first(device)
        return 5_000_000

    def nvmlDeviceGetTemperature(self, device: int, which: int) -> int:  # noqa: N802
        return 64

    def nvmlDeviceGetClockInfo(self, device: int, which: int) -> int:  # noqa: N802
        return {1: 1980, 2: 2619}[which]

    def nvmlDeviceGetComputeRunningProcesses(self, device: int) -> list[Any]:  # noqa: N802
        return [self._process(101, 8), self._process(200, 3)] if device == 0 else []

    def nvmlDeviceGetGraphicsRunningProcesses(self, device: int) -> list[Any]:  # noqa: N802
        self._only_first(device)
        return [self._process(300, 1)]

    def _process(self, pid: int, gib: int) -> Any:
        reported = self.per_process or pid == 101
        return SimpleNamespace(pid=pid, usedGpuMemory=gib * GIB if reported else None)

    def _only_first(self, device: int) -> None:
        if device:
            raise NVMLError_NotSupported("Not Supported")
