"""Speed from a data sheet: the estimate where nothing was measured.

A device attains the lesser of two roofs: its arithmetic peak, and its memory bandwidth
times the operations done per byte. A part of each step (data loading, kernel launches,
Python) runs on the host and no device shortens it. `docs/concept/abstraction.md` has
the reasons for the numbers below and the measured error of the result.
"""

from __future__ import annotations

from typing import NamedTuple

from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType, reference

TRAINING_FORMATS = ("bf16", "fp16", "tf32", "fp32")
"""A job uses the first of these that the device has."""

EFFICIENCY = 0.7
"""Part of the arithmetic peak that real steps reach: the median of ideal over measured
time in NeuSight's measurements of whole models (0.696 over eight GPUs)."""


class Shape(NamedTuple):
    """What a class of jobs asks of a device.

    Attributes:
        flop_per_byte: operations per byte moved, as it shows against data-sheet figures.
        parallel: part of a step on the reference device that a faster device shortens.
    """

    flop_per_byte: float
    parallel: float


SHAPES = {
    JobClass.COMPUTE_INTENSIVE: Shape(25.0, 0.90),
    JobClass.MEMORY_BOUND: Shape(2.0, 0.45),
    JobClass.LATENCY_SENSITIVE: Shape(10.0, 0.55),
    JobClass.BANDWIDTH_LIMITED: Shape(20.0, 0.65),
    JobClass.MIXED: Shape(25.0, 0.725),
}
"""Parallel parts are the middle of each class's range in the table of workload classes;
operations per byte were chosen on Gavel's ratios between K80, P100 and V100."""


def training_format(device: DeviceType) -> str:
    """The number format a job trains in on this device, "" if it has none that serves."""
    return next((each for each in TRAINING_FORMATS if each in device.peak_tflops), "")


def attainable_tflops(device: DeviceType, kind: JobClass) -> float:
    """TFLOP/s that jobs of a class reach on one device; 0 if it cannot run them."""
    best = training_format(device)
    if not best:
        return 0.0
    compute_roof = device.peak_tflops[best] * EFFICIENCY
    memory_roof = device.bandwidth_gb_s * SHAPES[kind].flop_per_byte / 1000
    return min(compute_roof, memory_roof)


def relative_speed(device: DeviceType, kind: JobClass) -> float:
    """Speed of one device in steps, where the reference device is exactly 1.0.

    Amdahl's law: only the parallel part of a step follows the device.
    """
    own = attainable_tflops(device, kind)
    if own <= 0.0:
        return 0.0
    times = attainable_tflops(reference(), kind) / own
    return 1.0 / (1.0 + SHAPES[kind].parallel * (times - 1.0))
