"""Table of rates: speed and power of each kind of job in each pool.

Jobs that behave alike share a profile: the same model (or class), gang size and base
device. Kernel and reference read the same table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster, Network, NodeGroup
from flyball.core.costs import Costs, RunTimes
from flyball.core.grouping import group_rows
from flyball.core.records import CAP, CAP_LEVELS, CAP_STEP, RATE, Records, records
from flyball.core.workload import JobClass, Workload
from flyball.physics import catalogue, measured
from flyball.physics.catalogue import DeviceType
from flyball.physics.power import cap_factors, draw_w
from flyball.physics.speed import speed
from flyball.schedule.classify import classify_workload

ROUNDING = 1e-12
"""Relative error of a product of speeds, which must not cost a step."""


@dataclass(frozen=True)
class Profile:
    """Describes jobs that run alike; the table of rates has a row for each profile and pool."""

    model: str | None
    kind: JobClass
    base: str
    devices: int


@dataclass(frozen=True)
class Profiles:
    """Holds the profiles of a workload, and the profile of each job.

    Attributes:
        of_job: index of each job's profile.
        kinds: the class of each job, as stated or as classified.
        to_reference: reference-device time per unit of time on each profile's base device.
    """

    profiles: tuple[Profile, ...]
    of_job: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.int64]
    to_reference: npt.NDArray[np.float64]


def find_profiles(workload: Workload) -> Profiles:
    """Group a workload's jobs by how they run.

    Raises:
        UnknownName: a model or a device that is not in the catalogue.
    """
    stated = workload.kind >= 0
    kinds = workload.kind if stated.all() else classify_workload(workload).kind
    groups = group_rows(workload.model, kinds, workload.device, workload.devices)
    distinct = []
    to_reference = np.ones(len(groups.first))
    reference = catalogue.reference()
    for at, job in enumerate(groups.first):
        model, device = workload.model[job], workload.device[job]
        base = workload.device_names[device] if device >= 0 else reference.name
        name = workload.models[model] if model >= 0 else None
        kind, devices = JobClass(int(kinds[job])), int(workload.devices[job])
        profile = Profile(name, kind, catalogue.get(base).name, devices)
        distinct.append(profile)
        faster = _speed(profile, reference.name, False, Network())[0]
        if faster > 0:  # else the reference device cannot run it: keep time on its base device
            to_reference[at] = 1.0 / faster
    return Profiles(tuple(distinct), groups.of_row, kinds, to_reference)


def _speed(
    profile: Profile, device: str, spread: bool, network: Network, devices_per_node: int = 0
) -> tuple[float, bool]:
    types = catalogue.get(device), catalogue.get(profile.base)
    return _speed_between(profile, *types, spread, network, devices_per_node)


@lru_cache(4096)
def _speed_between(
    profile: Profile,
    device: DeviceType,
    base: DeviceType,
    spread: bool,
    network: Network,
    devices_per_node: int,
) -> tuple[float, bool]:
    if profile.devices == 0:  # the host alone: no device makes it faster
        return 1.0, False
    relative = speed(
        profile.model,
        profile.kind,
        device,
        base,
        profile.devices,
        spread,
        network,
        devices_per_node,
    )
    return relative.value, relative.estimated


def rate_table(
    profiles: Profiles,
    cluster: Cluster,
    with_network: bool,
    step_slice_s: float = 0.0,
    costs: Costs | None = None,
) -> Records:
    """Return the rows `rates[profile * pools + pool]`; callers must not change them."""
    run_times = None if costs is None else costs.run_times
    return _rates(profiles.profiles, cluster, with_network, step_slice_s, run_times)


@lru_cache(64)
def _rates(
    profiles: tuple[Profile, ...],
    cluster: Cluster,
    with_network: bool,
    step_slice_s: float,
    run_times: RunTimes | None = None,
) -> Records:
    pools = cluster.groups
    table = records(len(profiles) * len(pools), RATE)
    for at, profile in enumerate(profiles):
        for pool_id, group in enumerate(pools):
            row = table[at * len(pools) + pool_id]
            row.packed, row.estimated = _speed(
                profile, group.device, False, cluster.network, group.devices
            )
            row.spread = row.packed
            if with_network:
                row.spread = _speed(profile, group.device, True, cluster.network, group.devices)[0]
            row.watts = draw_w(catalogue.get(group.device), profile.kind)
            steps_per_s = _steps_per_s(profile)
            if run_times is not None:
                row.packed, row.spread = tabulated(profile, group, run_times)
                steps_per_s = run_times.steps_per_s(*base_gang(profile)) or steps_per_s
            row.steps = steps_per_s or 1.0
            if step_slice_s and steps_per_s:
                row.packed *= _whole(row.packed * steps_per_s * step_slice_s)
                row.spread *= _whole(row.spread * steps_per_s * step_slice_s)
    return table


def base_gang(profile: Profile) -> tuple[str, str, int, bool]:
    """Return model, type, devices and whether the gang crosses nodes, as the user asked for it."""
    across = profile.devices > catalogue.get(profile.base).node_devices
    return profile.model or "", profile.base, profile.devices, across


def tabulated(profile: Profile, group: NodeGroup, run_times: RunTimes) -> tuple[float, float]:
    """Return the speeds of a gang, packed and spread, by tabulated run times; 0 = cannot run."""
    model, _, devices, _ = base_gang(profile)
    base_s = run_times.rigid_s(*base_gang(profile))
    device = catalogue.get(group.device).name
    packed_s = run_times.rigid_s(model, device, devices, devices > group.devices)
    spread_s = run_times.rigid_s(model, device, devices, devices > 1)
    if not base_s or not packed_s:
        return 0.0, 0.0
    return base_s / packed_s, base_s / (spread_s or packed_s)


def _whole(steps: float) -> float:
    """Return the part of these steps that is whole; all if there is none, to make progress."""
    whole = math.floor(steps * (1.0 + ROUNDING))
    return min(1.0, whole / steps) if whole else 1.0


def _steps_per_s(profile: Profile) -> float:
    """Return the training steps per second on the base device; 0 if not measured."""
    key = measured.model_key(profile.model)
    device = catalogue.get(profile.base).measured_as
    if key is None or not device:
        return 0.0
    count = measured.measured_count(key, profile.devices)
    return measured.steps_per_s(device, key, count) or 0.0


@lru_cache(64)
def cap_table(cluster: Cluster) -> Records:
    """Return the rows `caps[pool * CAP_LEVELS + level]`; callers must not change them."""
    table = records(len(cluster.groups) * CAP_LEVELS, CAP)
    for pool_id, group in enumerate(cluster.groups):
        for level in range(CAP_LEVELS):
            row = table[pool_id * CAP_LEVELS + level]
            row.slowdown, row.power = cap_factors(catalogue.get(group.device), 1 - CAP_STEP * level)
    return table
