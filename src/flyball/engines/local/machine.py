"""This machine as a node: its accelerators, else its cores."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flyball.core.live import LiveNode

MOST_DEVICES = 64
"""Number of bits in a device mask."""
CPU_DEVICE = "CPU1"
MOST_PROCESSES = 16_384
"""Upper bound of the default limit of a job's processes and threads."""


def usable_cores() -> list[int]:
    """Return the cores that this process, and so its jobs, may use."""
    return sorted(os.sched_getaffinity(0))


def describe(name_device: Callable[[str], str], nvml: Any = None) -> LiveNode:
    """Return this machine as a node.

    Args:
        name_device: maps a driver's device name to the catalogue's.
        nvml: replaces NVIDIA's library in tests.
    """
    names, uuids = _gpus(nvml)
    cores = len(usable_cores())
    device = name_device(names[0]) if names else CPU_DEVICE
    devices = len(names) or cores // cores_per_device(cores)
    return LiveNode(socket.gethostname(), device, devices, cores, memory_mib(), tuple(uuids))


def cores_per_device(cores: int) -> int:
    """Return how many cores form a device: 1, or as many as keep the node to 64 devices."""
    return -(-cores // MOST_DEVICES)


def memory_mib(text: str | None = None) -> int:
    """Return the host's total memory, from `/proc/meminfo`."""
    if text is None:
        with open("/proc/meminfo") as file:
            text = file.read()
    line = next(line for line in text.splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) // 1024


def default_max_processes(folder: str = "/proc/sys/kernel") -> int:
    """Return the default limit of a job's processes and threads: a quarter of the kernel's."""
    limits = [MOST_PROCESSES]
    for name in ("pid_max", "threads-max"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(folder, name).read_text()) // 4)
    return max(1, min(limits))


def _gpus(nvml: Any) -> tuple[list[str], list[str]]:
    """Return names and UUIDs; none without a driver. A mixed machine shows its first type only."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return [], []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        gpus = [
            (_text(nvml.nvmlDeviceGetName(h)), _text(nvml.nvmlDeviceGetUUID(h))) for h in handles
        ]
    finally:
        nvml.nvmlShutdown()
    same = [gpu for gpu in gpus if gpu[0] == gpus[0][0]][:MOST_DEVICES]
    return [name for name, _uuid in same], [uuid for _name, uuid in same]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
