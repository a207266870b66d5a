"""Abstract compute units: one measure for devices of every make.

One ACU is the work that one V100 does. A device of 2 ACU for a class of jobs does their work twice
as fast, so the ACUs of a pool add up to the work it can do. Memory, bandwidth and work per joule
are separate figures and not part of it: they limit or price work, they are not work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType, reference
from flyball.physics.power import draw_w
from flyball.physics.roofline import relative_speed


@dataclass(frozen=True)
class Profile:
    """Capabilities of a device; every figure is relative to one V100.

    Attributes:
        device: its name.
        throughput: work per second, by workload class. This is the ACU of the class.
        memory: memory capacity.
        bandwidth: memory bandwidth.
        efficiency: work per joule, by workload class.
    """

    device: str
    throughput: Mapping[JobClass, float] = field(hash=False)
    memory: float
    bandwidth: float
    efficiency: Mapping[JobClass, float] = field(hash=False)


def profile(device: DeviceType) -> Profile:
    """Return the capability profile of one device."""
    one = reference()
    return Profile(
        device=device.name,
        throughput={kind: acu(device, kind) for kind in JobClass},
        memory=device.memory_gib / one.memory_gib,
        bandwidth=device.bandwidth_gb_s / one.bandwidth_gb_s,
        efficiency={kind: _work_per_joule(device, kind) for kind in JobClass},
    )


def acu(device: DeviceType, kind: JobClass | None = None) -> float:
    """Return the abstract compute units of one device: exactly 1.0 for a V100.

    Args:
        device: the device.
        kind: for jobs of this class; None = overall, the geometric mean over the five
            classes (each counts alike; 0 if the device cannot run one of them).
    """
    if kind is not None:
        return relative_speed(device, kind)
    speeds = [relative_speed(device, job_class) for job_class in JobClass]
    return math.prod(speeds) ** (1.0 / len(JobClass))


def _work_per_joule(device: DeviceType, kind: JobClass) -> float:
    return relative_speed(device, kind) * (draw_w(reference(), kind) / draw_w(device, kind))
