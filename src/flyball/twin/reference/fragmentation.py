"""The oracle's fragmentation and draws: what `place = fgd` and `place = random` compare.

Everything is recomputed from the devices of a copy of the node.
"""

from __future__ import annotations

import math
from copy import copy

from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.parts import Device, Job, Node, UsualKind

BORDERS = [math.ceil(1e6 * math.log(k / (100 - k))) for k in range(1, 100)]
"""Values of growth at which 100 / (1 + e^growth) passes 1, 2, ... 99, in millionths of a device."""

BITS = 2**32 - 1
"""Mask that keeps numbers to 32 bits."""


def fragments(cluster: Cluster, node: Node) -> int:
    """Return the free thousandths of the node that usual jobs cannot use, summed over jobs."""
    return sum(kind.count * _unusable_milli(cluster, node, kind) for kind in cluster.usual)


def _unusable_milli(cluster: Cluster, node: Node, kind: UsualKind) -> int:
    """Return the free thousandths on the node that one job of the kind cannot use."""
    large = [device for device in node.devices if device.free_milli >= kind.milli]
    runs = (
        len(large) >= kind.devices
        and node.free_cpu_milli >= kind.cpu_milli
        and node.free_host_mib >= kind.host_mib
        and kind.pools >> cluster.pool_of(node).index & 1
    )
    return node.free_milli - sum(device.free_milli for device in large) if runs else node.free_milli


def growth(cluster: Cluster, job: Job, node: Node, devices: list[int]) -> int:
    """Return how much the fragmentation grows if the job takes these devices of the node."""
    after = copy(node)
    after.devices = [Device(device.free_milli, device.free_mib) for device in node.devices]
    for number in devices:
        after.devices[number].free_milli -= job.milli
    cpu_milli, host_mib = job.on_host(len(devices))
    after.free_cpu_milli -= cpu_milli
    after.free_host_mib -= host_mib
    return fragments(cluster, after) - fragments(cluster, node)


def level(cluster: Cluster, grown: int) -> int:
    """Return the level of an increase in fragmentation: 0, the best, to 99."""
    jobs = sum(kind.count for kind in cluster.usual)
    return len(BORDERS) - sum(-grown * 1000 >= border * jobs for border in BORDERS)


def least_devices(cluster: Cluster, job: Job, node: Node, fitting: list[int]) -> list[int]:
    """Return the devices that the job takes among those `fitting`, in order of preference."""
    if not job.fractional or job.devices != 1:
        return fitting[: job.devices]

    def rank(number: int) -> tuple[int, int, int]:
        level_ = level(cluster, growth(cluster, job, node, [number]))
        return level_, node.devices[number].free_milli, number

    return [min(fitting, key=rank)]


def cost_on(cluster: Cluster, job: Job, node: Node, devices: list[int]) -> tuple[int, ...]:
    """Return what fgd compares between nodes: the level, then the node with least to spare."""
    grown = growth(cluster, job, node, devices)
    return level(cluster, grown), node.free_milli, node.free_cpu_milli


# Draws -----------------------------------------------------------------------


def draw(cluster: Cluster, node: int, device: int | None = None) -> int:
    """Return the random number of a node, or of one of its devices, for the next start."""
    number = mixed(mixed(cluster.starts) + node)
    return number if device is None else mixed(number + 1 + device)


def mixed(value: int) -> int:
    value &= BITS
    for _ in range(2):
        value = (value ^ value >> 16) * 0x45D9F3B & BITS
    return value ^ value >> 16
