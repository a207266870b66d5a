"""What clusters call their GPUs: device types by many names, and slices of one (MIG)."""

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
"""Makers and form factors: they do not change which type of the catalogue is meant."""

_SLICE = re.compile(r"(\d)g\.(\d+)gb")
_MEMORY = re.compile(r"\d+gb")


class Share(NamedTuple):
    """What a job asks of its GPUs: how many, how much of each, memory on each (0 = not said)."""

    devices: int
    milli: int = MILLI_PER_DEVICE
    memory_mib: int = 0


class Slice(NamedTuple):
    """A slice of a GPU: its part of the device, and its memory."""

    part: Fraction
    memory_gb: int


@cache
def device_of(text: str) -> str:
    """The catalogue's name for a device as clusters write it, "" if it has none.

    `nvidia_a100-sxm4-80gb`, `NVIDIA A100-SXM4-80GB`, `NVIDIA-A100-SXM4-80GB-MIG-1g.10gb` and
    `a100` are all A100; `tpu-v5-lite-podslice` is TPUv5e.
    """
    whole = _SLICE.sub("", text.lower()).replace("mig", "")
    named = [whole] if re.search(r"[a-z]", whole) else []  # a cloud's own name for a type
    words = [word for word in re.split(r"[^a-z0-9]+", whole) if word and word not in NOISE]
    without_memory = [word for word in words if not _MEMORY.fullmatch(word)]
    for candidate in (named, words, without_memory):
        try:
            return catalogue.get("-".join(candidate)).name
        except UnknownName:
            continue
    return ""


def slice_of(text: str) -> Slice | None:
    """The slice a name such as `a100_1g.5gb` or `nvidia.com/mig-1g.5gb` stands for, if any.

    Devices have seven parts, but for those with 6 GB to a part (A30), which have four.
    """
    found = _SLICE.search(text.lower())
    if found is None:
        return None
    parts, memory_gb = int(found[1]), int(found[2])
    whole = 4 if memory_gb == 6 * parts else 7
    return Slice(min(Fraction(parts, whole), Fraction(1)), memory_gb)


def gathered(slices: Iterable[tuple[Slice, int]]) -> Share:
    """Slices with their counts, as if on as few devices as possible."""
    parts, memory_gb = Fraction(0), 0
    for each, count in slices:
        parts += each.part * count
        memory_gb += each.memory_gb * count
    devices = max(1, math.ceil(parts))
    milli = max(1, math.floor(parts * MILLI_PER_DEVICE / devices))
    return Share(devices, milli, math.ceil(memory_gb * MIB_PER_GIB / devices))
