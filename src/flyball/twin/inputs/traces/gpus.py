"""Names of GPUs in clusters: the many names of a device type, and slices of one (MIG)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from flyball.core.errors import UnknownName
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE
from flyball.physics import catalogue

NOISE = {
    *("nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "intel", "habana", "habanalabs"),
    *("google", "aws", "gpu", "shared", "accelerator", "nvgpu", "oam", "vf"),
    *("sxm", "sxm2", "sxm3", "sxm4", "sxm5", "pcie", "nvl", "hbm2", "hbm2e", "hbm3", "hbm3e"),
}
"""Makers and form factors: words in a name that do not decide the device type."""

_SLICE = re.compile(r"(\d)g\.(\d+)gb")
_MEMORY = re.compile(r"\d+gb")


class GpuShare(NamedTuple):
    """Holds what a job asks for: how many GPUs, thousandths and memory of each (0 = not stated)."""

    devices: int
    milli: int = MILLI_PER_DEVICE
    memory_mib: int = 0


class GpuSlice(NamedTuple):
    """Holds one slice of a GPU: its part of the device, and its memory."""

    part: Fraction
    memory_gb: int


@cache
def device_of(text: str) -> str:
    """Return the catalogue's name for a device as clusters write it, "" if it has none.

    `nvidia_a100-sxm4-80gb`, `NVIDIA A100-SXM4-80GB`, `NVIDIA-A100-SXM4-80GB-MIG-1g.10gb` and
    `a100` are all A100; `tpu-v5-lite-podslice` is TPUv5e.
    """
    plain = _SLICE.sub("", text.lower()).replace("mig", "")
    full_name = [plain] if re.search(r"[a-z]", plain) else []  # a cloud's name for a type
    words = [word for word in re.split(r"[^a-z0-9]+", plain) if word and word not in NOISE]
    without_memory = [word for word in words if not _MEMORY.fullmatch(word)]
    for candidate in (full_name, words, without_memory):
        try:
            return catalogue.get("-".join(candidate)).name
        except UnknownName:
            continue
    return ""


def slice_of(text: str) -> GpuSlice | None:
    """Return the slice that a name such as `a100_1g.5gb` or `nvidia.com/mig-1g.5gb` has, if any.

    Devices have seven parts, except those with 6 GB per part (A30), which have four.
    """
    match = _SLICE.search(text.lower())
    if match is None:
        return None
    parts, memory_gb = int(match[1]), int(match[2])
    parts_per_device = 4 if memory_gb == 6 * parts else 7
    return GpuSlice(min(Fraction(parts, parts_per_device), Fraction(1)), memory_gb)


def gathered(slices: Iterable[tuple[GpuSlice, int]]) -> GpuShare:
    """Return slices with their counts as a share of as few devices as possible."""
    parts, memory_gb = Fraction(0), 0
    for slice_, count in slices:
        parts += slice_.part * count
        memory_gb += slice_.memory_gb * count
    devices = max(1, math.ceil(parts))
    milli = max(1, math.floor(parts * MILLI_PER_DEVICE / devices))
    return GpuShare(devices, milli, math.ceil(memory_gb * MIB_PER_GIB / devices))
