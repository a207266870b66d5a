"""Speed from a data sheet: the estimate where nothing was measured.

A device attains the lesser of two roofs: its arithmetic peak, and its memory bandwidth
times the operations done per byte. A part of each step (data loading, kernel launches,
Python) runs on the host, and a faster device does not shorten it. `docs/concept/abstraction.md`
has the reasons for the numbers below and the measured error of the result.
"""

from __future__ import annotations

from typing import NamedTuple

from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType, reference

TRAINING_FORMATS = ("bf16", "fp16", "tf32", "fp32")
"""Number formats for training; a job uses the first of these that the device has."""

EFFICIENCY = 0.7
"""Part of the arithmetic peak that real steps reach: the median of ideal over measured
time in NeuSight's measurements of whole models (0.696 over eight GPUs)."""


class Intensity(NamedTuple):
    """How a class of jobs uses a device.

    Attributes:
        flop_per_byte: operations per byte moved, relative to data-sheet figures.
        parallel: part of a step on the reference device that a faster device shortens.
    """

    flop_per_byte: float
    parallel: float


INTENSITIES = {
    JobClass.COMPUTE_INTENSIVE: Intensity(25.0, 0.90),
    JobClass.MEMORY_BOUND: Intensity(2.0, 0.45),
    JobClass.LATENCY_SENSITIVE: Intensity(10.0, 0.55),
    JobClass.BANDWIDTH_LIMITED: Intensity(20.0, 0.65),
    JobClass.MIXED: Intensity(25.0, 0.725),
}
"""Parallel parts are the middle of each class's range in the table of workload classes;
operations per byte were chosen on Gavel's ratios between K80, P100 and V100."""


def training_format(device: DeviceType) -> str:
    """Return the number format a job trains in on this device, "" if it has none of them."""
    return next((name for name in TRAINING_FORMATS if name in device.peak_tflops), "")


def attainable_tflops(device: DeviceType, kind: JobClass) -> float:
    """Return the TFLOP/s that jobs of a class reach on one device; 0 if it cannot run them."""
    best = training_format(device)
    if not best:
        return 0.0
    compute_roof = device.peak_tflops[best] * EFFICIENCY
    memory_roof = device.bandwidth_gb_s * INTENSITIES[kind].flop_per_byte / 1000
    return min(compute_roof, memory_roof)


def relative_speed(device: DeviceType, kind: JobClass) -> float:
    """Return the speed of one device in steps, where the reference device is exactly 1.0.

    Amdahl's law: only the parallel part of a step depends on the device.
    """
    tflops = attainable_tflops(device, kind)
    if tflops <= 0.0:
        return 0.0
    times = attainable_tflops(reference(), kind) / tflops
    return 1.0 / (1.0 + INTENSITIES[kind].parallel * (times - 1.0))
