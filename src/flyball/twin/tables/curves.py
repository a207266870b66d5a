"""Speed curves of elastic jobs: progress with every number of devices, tabulated once.

A curve belongs to a profile and a range of devices. Jobs that share both share the curve.
At the number of devices the job asked for, with its batch as the user set it, the curve is the
table of rates; elsewhere it is that rate times the change in goodput.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.costs import Costs, RunTimes
from flyball.core.errors import BadInput
from flyball.core.grouping import group_rows
from flyball.core.records import POINT, RANGE, Records, records
from flyball.physics import catalogue
from flyball.physics.goodput import Growth, apart, growth, relative
from flyball.physics.network import spread_factor
from flyball.twin.tables.rates import Profile, Profiles, base_gang, rate_table

Ints = npt.NDArray[np.int64]

MAX_DEVICES = 64
"""Maximum devices of a curve: nothing was profiled on more."""
MAX_GROWTH = 4
"""Default maximum of devices of an elastic job, as a multiple of what it asked for."""
MAX_GROWN = 16
"""Default maximum of devices of an elastic job: the largest gang profiled on all types."""
RIGID = -1
"""Curve index of a job that cannot be resized."""


class Curves(NamedTuple):
    """Holds the tables of a workload's curves.

    Attributes:
        ranges: records of `RANGE`, one for each distinct (profile, least, most).
        points: records of `POINT`, the curves one after the other.
        of_job: row of `ranges` for each job, -1 = rigid.
    """

    ranges: Records
    points: Records
    of_job: Ints


def default_range(devices: int, cluster: Cluster) -> tuple[int, int]:
    """Return the range of devices of a job that may be resized and states none."""
    largest = max(group.count * group.devices for group in cluster.groups)
    return 1, max(devices, min(MAX_GROWTH * devices, MAX_GROWN, largest))


def curve_tables(
    profiles: Profiles,
    cluster: Cluster,
    least: Ints,
    most: Ints,
    adaptive: bool,
    with_network: bool,
    costs: Costs | None = None,
) -> Curves:
    """Return the curves of all jobs that may be resized.

    Args:
        profiles: of the workload.
        cluster: its pools are those of the points.
        least, most: devices each job may hold; most = 0: rigid, most < 0: the default range.
        adaptive: the batch follows the number of devices; else it stays as the user set it.
        with_network: False = no penalty for gangs spread over nodes.
        costs: their tabulated run times replace the speed model.

    Raises:
        BadInput: a range that leaves out the number of devices asked for, or goes beyond 64.
    """
    elastic = np.array([_elastic(profile, adaptive) for profile in profiles.profiles])
    rigid = most == 0
    rigid |= ~elastic[profiles.of_job]
    of_job = np.full(len(most), RIGID, np.int64)
    resizable = np.flatnonzero(~rigid)
    if not len(resizable):
        return Curves(records(0, RANGE), records(0, POINT), of_job)
    groups = group_rows(profiles.of_job[resizable], least[resizable], most[resizable])
    of_job[resizable] = groups.of_row
    rates = rate_table(profiles, cluster, with_network, costs=costs)
    pools = len(cluster.groups)
    ranges, curves, first = records(len(groups.first), RANGE), [], 0
    for row, job in zip(ranges, resizable[groups.first], strict=True):
        index = int(profiles.of_job[job])
        profile = profiles.profiles[index]
        row.least, row.most = _range(profile.devices, int(least[job]), int(most[job]), cluster)
        row.first = first
        of_profile: Any = rates[index * pools : (index + 1) * pools]
        counts = range(int(row.least), int(row.most) + 1)
        if costs is None or costs.run_times is None:
            curve = _curve(profile, of_profile, counts, cluster, adaptive, with_network)
        else:
            curve = _tabulated(profile, counts, cluster, adaptive, costs.run_times)
        curves.append(curve)
        first += len(counts) * pools
    points = records(first, POINT)
    points[:] = np.concatenate(curves)
    return Curves(ranges, points, of_job)


def _range(devices: int, least: int, most: int, cluster: Cluster) -> tuple[int, int]:
    if most < 0:
        return default_range(devices, cluster)
    if not 1 <= least <= devices <= most <= MAX_DEVICES:
        raise BadInput(
            f"a job of {devices} devices with a range of {least} to {most}",
            f"give a range from 1 to {MAX_DEVICES} that includes the {devices} it asks for",
        )
    return least, most


def _elastic(profile: Profile, adaptive: bool) -> bool:
    """Return whether speeds of the profile's model are known at other numbers of devices."""
    return profile.devices > 0 and _growth_of(profile.model, adaptive) is not None


@lru_cache(4096)
def _growth_of(model: str | None, adaptive: bool) -> Growth | None:
    return growth(model, adaptive)


def _curve(
    profile: Profile,
    rates: Records,
    counts: range,
    cluster: Cluster,
    adaptive: bool,
    with_network: bool,
) -> Records:
    """Return the points of one curve, count by count and pool by pool."""
    scaling = _growth_of(profile.model, adaptive)
    assert scaling is not None, "a rigid profile has no curve"
    curve = records(len(counts) * len(cluster.groups), POINT)
    places = ((count, pool_id) for count in counts for pool_id in range(len(cluster.groups)))
    for point, (count, pool_id) in zip(curve, places, strict=True):
        group, rate = cluster.groups[pool_id], rates[pool_id]
        if count > group.count * group.devices:
            continue  # the pool is too small
        if count == profile.devices and not scaling.adapts:
            point.packed, point.spread = rate.packed, rate.spread
            continue
        device = catalogue.get(group.device)
        part = relative(scaling, device.like or device.name, profile.devices, count, group.devices)
        point.packed = point.spread = float(rate.packed) * part
        if with_network:
            point.spread = point.packed * _spread_factor(scaling, profile, group, count, cluster)
    return curve


def _tabulated(
    profile: Profile, counts: range, cluster: Cluster, adaptive: bool, run_times: RunTimes
) -> Records:
    """Return the points of one curve by tabulated run times."""
    model, base_s = profile.model or "", run_times.rigid_s(*base_gang(profile)) or 0.0
    there = run_times.elastic_s if adaptive else run_times.rigid_s
    curve = records(len(counts) * len(cluster.groups), POINT)
    places = ((count, group) for count in counts for group in cluster.groups)
    for point, (count, group) in zip(curve, places, strict=True):
        if count > group.count * group.devices:
            continue  # the pool is too small
        device = catalogue.get(group.device).name
        packed_s = there(model, device, count, count > group.devices)
        spread_s = there(model, device, count, count > 1)
        if packed_s:
            point.packed, point.spread = base_s / packed_s, base_s / (spread_s or packed_s)
    return curve


def _spread_factor(
    scaling: Growth, profile: Profile, group: NodeGroup, count: int, cluster: Cluster
) -> float:
    """Return the spread speed relative to packed: as measured, else by the network model."""
    device = catalogue.get(group.device)
    measured = apart(scaling, device.like or device.name, count, group.devices)
    if measured is not None:
        return measured
    if count > group.devices:  # it crosses nodes anyway
        return 1.0
    return spread_factor(device, profile.kind, count, cluster.network)
