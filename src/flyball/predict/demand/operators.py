"""Latency of one operator of a network on one device: a roofline and features for its residual.

Operations and bytes are counted from the shapes; the roofline is the longer of computing at peak
and moving the bytes once. The features describe how well the shape fits the device: whether its
tiles fill the multiprocessors, whether it fits into the cache, how it is aligned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flyball.core.errors import UnknownName
from flyball.core.results import Floats
from flyball.physics import catalogue
from flyball.predict.demand.formulas import VALUE, Row, number, shared_rows

MATRIX = ("linear", "bmm")
TWO_INPUTS = ("add", "mul", "pow", "div")
OTHERS = ("addu", "mulu", "powu", "divu", "relu", "gelu", "tanh", "softmax", "ln")
OPERATORS = (*MATRIX, *TWO_INPUTS, *OTHERS)
PER_ELEMENT = {"ln": 8.0, "softmax": 5.0, "gelu": 8.0, "tanh": 8.0, "pow": 8.0, "powu": 8.0}
"""Operations per element; 1 for operators that are not listed."""
TILE = 128
BYTES = 4.0
"""Bytes of an element: the measurements are in FP32."""
MANY_WAVES = 50.0

CATALOGUE_NAMES = {
    "NVIDIA A100-PCIE-40GB": "A100-40GB",
    "NVIDIA A100-SXM4-40GB": "A100-40GB",
    "NVIDIA A100 80GB PCIe": "A100",
    "NVIDIA H100 80GB HBM3": "H100",
    "NVIDIA L4": "L4",
    "Tesla P100-PCIE-16GB": "P100",
    "Tesla T4": "T4",
    "Tesla V100-PCIE-32GB": "V100-32GB",
}
"""Catalogue names of NeuSight's devices, by its names."""


@dataclass(frozen=True)
class Chip:
    """Holds the properties of a device that operators depend on; NaN = not known."""

    peak_flops: float
    bandwidth: float
    cores: float = math.nan
    mhz: float = math.nan
    cache_bytes: float = math.nan


@dataclass(frozen=True)
class OperatorCounts:
    """Holds the counts of one operator."""

    flops: float
    moved: float
    tiles: float
    filled: float


class Operators:
    """Estimates latencies; rows have `op`, `gpu` and the sizes `B`, `M`, `N`, `K`, `H`."""

    names: tuple[str, ...] = (
        *("op", "log_roofline", "log_compute_over_memory", "log_waves", "last_wave", "filled"),
        *("log_b", "log_m", "log_n", "log_k", "log_h", "log_moved_over_cache"),
        *("m_over", "n_over", "k_over", "h_over", "cores", "mhz"),
    )
    coded: tuple[int, ...] = (0,)

    def __init__(self, chips: Mapping[str, Chip] | None = None) -> None:
        self._chips = dict(chips or {})

    def fit(self, rows: Sequence[Row], logs: Floats) -> None:
        """Do nothing: everything is counted."""

    def logs(self, rows: Sequence[Row]) -> Floats:
        """Return the logarithm of the roofline, in seconds."""
        return np.log([max(self._times(row, count_of(row))) for row in rows])

    def features(self, rows: Sequence[Row]) -> Floats:
        """Return the features, named by `names`, of each row."""
        return np.array([self._features(row) for row in rows])

    def as_dict(self) -> dict[str, Any]:
        """Return the devices, for the card."""
        return {"chips": {name: asdict(chip) for name, chip in self._chips.items()}}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore what `as_dict` returned."""
        self._chips = {name: Chip(**chip) for name, chip in values["chips"].items()}

    def chip(self, name: str) -> Chip:
        """Return a device by NeuSight's name, else by the catalogue's.

        Raises:
            UnknownName: neither has it.
        """
        if name in self._chips:
            return self._chips[name]
        for neusight, alias in CATALOGUE_NAMES.items():
            if neusight in self._chips and alias.lower() == name.lower():
                return self._chips[neusight]
        device = catalogue.get(name)
        if "fp32" not in device.peak_tflops:
            raise UnknownName("device with FP32", name, self._chips)
        return Chip(device.peak_tflops["fp32"] * 1e12, device.bandwidth_gb_s * 1e9)

    def _times(self, row: Row, count: OperatorCounts) -> tuple[float, float]:
        chip = self.chip(str(row.get("gpu")))
        return count.flops / chip.peak_flops, count.moved / chip.bandwidth

    def _features(self, row: Row) -> list[float]:
        count, chip = count_of(row), self.chip(str(row.get("gpu")))
        compute_s, memory_s = self._times(row, count)
        waves = count.tiles / chip.cores
        sizes = [_size(row, field) for field in "BMNKH"]
        return [
            float(OPERATORS.index(str(row["op"]))),
            math.log(max(compute_s, memory_s)),
            math.log(compute_s / memory_s),
            math.log(waves),
            math.ceil(waves) / waves if waves < MANY_WAVES else 1.0,
            count.filled,
            *(math.log(size) for size in sizes),
            math.log(count.moved / chip.cache_bytes),
            *(size % step for size, step in zip(sizes[1:], (64, 64, 32, 32), strict=True)),
            chip.cores,
            chip.mhz,
        ]


def count_of(row: Row) -> OperatorCounts:
    """Return operations, bytes and tiles of one operator.

    Raises:
        UnknownName: there is no such operator.
        BadInput: a size is not a positive number.
    """
    op = str(row.get("op"))
    if op not in OPERATORS:
        raise UnknownName("operator", op, OPERATORS)
    if op in MATRIX:
        batch, m, n, k = (number(row, field) for field in "BMNK")
        weights = n * k if op == "linear" else batch * n * k
        high, wide = math.ceil(m / TILE), math.ceil(n / TILE)
        return OperatorCounts(
            flops=2.0 * batch * m * n * k,
            moved=BYTES * (batch * m * k + weights + batch * m * n),
            tiles=batch * high * wide,
            filled=m * n / (high * wide * TILE * TILE),
        )
    elements = number(row, "B") * number(row, "H")
    moved = 3.0 if op in TWO_INPUTS else 2.0
    flops = elements * PER_ELEMENT.get(op, 1.0)
    return OperatorCounts(flops, BYTES * moved * elements, elements / 1024.0, 1.0)


def _size(row: Row, field: str) -> float:
    return math.nan if row.get(field) in (None, "") else number(row, field)


def chips() -> dict[str, Chip]:
    """Return NeuSight's devices, by its names.

    Raises:
        DataAbsent: its table is not on this machine.
    """
    return {
        row["Device"]: Chip(
            float(row["SingleFLOPs"]) * 1e9,
            float(row["Mem_Bw"]) * 1e9,
            float(row["Num_Sm"]),
            float(row["Freq"]),
            float(row["L2Cache"]) * 2**20,
        )
        for row in shared_rows("dnn_perf", "neusight_gpu_specs.csv.gz")
        if row["SingleFLOPs"] and not row["gpu"].endswith("_TP")  # a doubled, fictitious device
    }


def table() -> list[Row]:
    """Return NeuSight's measured latencies; `value` is in seconds."""
    rows = shared_rows("dnn_perf", "neusight_op_latency.csv.gz")
    return [{**row, VALUE: float(row["latency_ms"]) / 1e3} for row in rows]
