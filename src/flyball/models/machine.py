"""What a measurement's result depends on besides the model: processor, threads, versions, load."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch

from flyball.models.extras import versions

CPU_INFO = Path("/proc/cpuinfo")
GEMM_SIZE = 1024


@dataclass(frozen=True)
class Machine:
    """The machine that something was measured on.

    Attributes:
        processor: its name and instruction sets that matter here.
        cores: usable by this process.
        memory_gib: of the machine.
        versions: of the optional packages.
    """

    processor: str
    cores: int
    memory_gib: float
    versions: dict[str, str]


def this_machine() -> Machine:
    """Describe this machine."""
    return Machine(
        processor=f"{_processor()} ({torch.backends.cpu.get_cpu_capability()})",
        cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        versions=versions(),
    )


def _processor() -> str:
    try:
        for line in CPU_INFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def available_bytes() -> int:
    """Return the memory that can be used without swapping."""
    return int(psutil.virtual_memory().available)


def gemm_rates(threads: int, repeats: int = 7) -> dict[str, float]:
    """Measure the arithmetic rate of a large float32 matrix product, in GFLOP/s, by kernel.

    `eager` is torch's own product, which eager models use; `onednn` is the product with packed
    weights that fused layers use. On some processors they differ by a factor of two.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        left, right = torch.randn(GEMM_SIZE, GEMM_SIZE), torch.randn(GEMM_SIZE, GEMM_SIZE)
        products: dict[str, Callable[[], object]] = {"eager": lambda: left @ right}
        if torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
            packed = torch.ops.mkldnn._reorder_linear_weight(right, GEMM_SIZE)
            kernel = torch.ops.mkldnn._linear_pointwise
            products["onednn"] = lambda: kernel(left, packed, None, "none", [], "")
        with torch.no_grad():
            return {name: _best_rate(product, repeats) for name, product in products.items()}
    finally:
        torch.set_num_threads(before)


def _best_rate(product: Callable[[], object], repeats: int) -> float:
    product()
    best_s = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        product()
        best_s = min(best_s, time.perf_counter() - began)
    return 2 * GEMM_SIZE**3 / best_s / 1e9


class OtherLoad:
    """Measures the part of the machine's cores that other processes used meanwhile."""

    def __init__(self) -> None:
        self._began = self._reading()

    def share(self) -> float:
        """Return the mean number of cores that others kept busy since the start."""
        busy_s, ours_s, wall_s = (
            now - then for now, then in zip(self._reading(), self._began, strict=True)
        )
        return max(0.0, (busy_s - ours_s) / wall_s) if wall_s > 0 else 0.0

    def _reading(self) -> tuple[float, float, float]:
        times: Any = psutil.cpu_times()
        busy_s = times.user + times.nice + times.system
        ours = os.times()
        children_s = ours.children_user + ours.children_system
        return busy_s, ours.user + ours.system + children_s, time.monotonic()
