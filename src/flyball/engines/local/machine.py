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
"""A mask of devices has this many bits."""
CPU_DEVICE = "CPU1"
MOST_PROCESSES = 16_384
"""Processes and threads of a job, at most, if nobody sets a limit."""


def own_cores() -> list[int]:
    """The cores that this process, and so its jobs, may use."""
    return sorted(os.sched_getaffinity(0))


def describe(name_device: Callable[[str], str], nvml: Any = None) -> LiveNode:
    """The node that this machine is.

    Args:
        name_device: the catalogue's name for what a driver calls a device.
        nvml: stands in for the library of NVIDIA's driver.
    """
    names, uuids = _gpus(nvml)
    cores = len(own_cores())
    device = name_device(names[0]) if names else CPU_DEVICE
    devices = len(names) or cores // cores_per_device(cores)
    return LiveNode(socket.gethostname(), device, devices, cores, memory_mib(), tuple(uuids))


def cores_per_device(cores: int) -> int:
    """1, or as many as it takes to have at most 64 devices."""
    return -(-cores // MOST_DEVICES)


def memory_mib(text: str | None = None) -> int:
    """All of the host's memory, from `/proc/meminfo`."""
    if text is None:
        with open("/proc/meminfo") as file:
            text = file.read()
    line = next(line for line in text.splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) // 1024


def default_max_processes(folder: str = "/proc/sys/kernel") -> int:
    """Processes and threads that a job may have: a quarter of what the kernel has numbers for."""
    limits = [MOST_PROCESSES]
    for name in ("pid_max", "threads-max"):
        with contextlib.suppress(OSError, ValueError):
            limits.append(int(Path(folder, name).read_text()) // 4)
    return max(1, min(limits))


def _gpus(nvml: Any) -> tuple[list[str], list[str]]:
    """Names and UUIDs; none if there is no driver. A mixed machine shows the first type only."""
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return [], []
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
        found = [
            (_text(nvml.nvmlDeviceGetName(h)), _text(nvml.nvmlDeviceGetUUID(h))) for h in handles
        ]
    finally:
        nvml.nvmlShutdown()
    same = [each for each in found if each[0] == found[0][0]][:MOST_DEVICES]
    return [name for name, _uuid in same], [uuid for _name, uuid in same]


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
