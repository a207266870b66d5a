"""How fast an elastic job runs with every number of devices it may hold: tabulated once.

A curve belongs to a profile and a range of devices. Jobs that share both share the curve.
At the job's own number of devices, with its batch as the user set it, the curve is the table
of rates itself; elsewhere it is that rate times the change in goodput.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.errors import BadInput
from flyball.core.grouping import group_rows
from flyball.core.records import POINT, RANGE, Records, records
from flyball.physics import catalogue
from flyball.physics.goodput import Growth, apart, growth, relative
from flyball.physics.network import spread_factor
from flyball.twin.rates import Profile, Profiles, rate_table

Ints = npt.NDArray[np.int64]

MOST = 64
"""No curve goes further: nothing was profiled on more devices."""
GROWS = 4
"""Unless stated, a job may hold up to this many times what it asked for ..."""
LARGEST = 16
"""... but not more than this, the largest gang that all types were profiled with."""
RIGID = -1


class Curves(NamedTuple):
    """The tables of a workload's curves.

    Attributes:
        ranges: records of `RANGE`, one for each distinct (profile, least, most).
        points: records of `POINT`, the curves one after the other.
        of_job: row of `ranges` for each job, -1 = rigid.
    """

    ranges: Records
    points: Records
    of_job: Ints


def usual_range(devices: int, cluster: Cluster) -> tuple[int, int]:
    """The range of a job that may be resized and states none."""
    largest = max(group.count * group.devices for group in cluster.groups)
    return 1, max(devices, min(GROWS * devices, LARGEST, largest))


def curve_tables(
    profiles: Profiles,
    cluster: Cluster,
    least: Ints,
    most: Ints,
    adaptive: bool,
    with_network: bool,
) -> Curves:
    """The curves of all jobs that may be resized.

    Args:
        profiles: of the workload.
        cluster: whose pools the points are for.
        least, most: devices each job may hold; most = 0: it is rigid, most < 0: its usual range.
        adaptive: the batch follows the number of devices; else it stays as the user set it.
        with_network: False = no penalty for gangs spread over nodes.

    Raises:
        BadInput: a range that leaves out the job's own number of devices, or beyond 64.
    """
    at_rest = most == 0
    at_rest |= ~np.array([_elastic(each, adaptive) for each in profiles.profiles])[profiles.of_job]
    of_job = np.full(len(most), RIGID, np.int64)
    moving = np.flatnonzero(~at_rest)
    if not len(moving):
        return Curves(records(0, RANGE), records(0, POINT), of_job)
    groups = group_rows(profiles.of_job[moving], least[moving], most[moving])
    of_job[moving] = groups.of_row
    rates = rate_table(profiles, cluster, with_network)
    pools = len(cluster.groups)
    ranges, curves, first = records(len(groups.first), RANGE), [], 0
    for row, job in zip(ranges, moving[groups.first], strict=True):
        index = int(profiles.of_job[job])
        profile = profiles.profiles[index]
        row.least, row.most = _range(profile.devices, int(least[job]), int(most[job]), cluster)
        row.first = first
        own: Any = rates[index * pools : (index + 1) * pools]
        counts = range(int(row.least), int(row.most) + 1)
        curves.append(_curve(profile, own, counts, cluster, adaptive, with_network))
        first += len(counts) * pools
    points = records(first, POINT)
    points[:] = np.concatenate(curves)
    return Curves(ranges, points, of_job)


def _range(devices: int, least: int, most: int, cluster: Cluster) -> tuple[int, int]:
    if most < 0:
        return usual_range(devices, cluster)
    if not 1 <= least <= devices <= most <= MOST:
        raise BadInput(
            f"a job of {devices} devices with a range of {least} to {most}",
            f"give a range from 1 to {MOST} that holds its own number of devices",
        )
    return least, most


def _elastic(profile: Profile, adaptive: bool) -> bool:
    """Whether anything is known of the profile's model at other numbers of devices."""
    return profile.devices > 0 and _known(profile.model, adaptive) is not None


@lru_cache(4096)
def _known(model: str | None, adaptive: bool) -> Growth | None:
    return growth(model, adaptive)


def _curve(
    profile: Profile,
    own: Records,
    counts: range,
    cluster: Cluster,
    adaptive: bool,
    with_network: bool,
) -> Records:
    """The points of one curve, count by count and pool by pool."""
    known = _known(profile.model, adaptive)
    assert known is not None, "a rigid profile has no curve"
    curve = records(len(counts) * len(cluster.groups), POINT)
    places = ((count, pool_id) for count in counts for pool_id in range(len(cluster.groups)))
    for point, (count, pool_id) in zip(curve, places, strict=True):
        group, rate = cluster.groups[pool_id], own[pool_id]
        if count > group.count * group.devices:
            continue  # it does not fit there
        if count == profile.devices and not known.adapts:
            point.packed, point.spread = rate.packed, rate.spread
            continue
        device = catalogue.get(group.device)
        part = relative(known, device.like or device.name, profile.devices, count, group.devices)
        point.packed = point.spread = float(rate.packed) * part
        if with_network:
            point.spread = point.packed * _apart(known, profile, group, count, cluster)
    return curve


def _apart(
    known: Growth, profile: Profile, group: NodeGroup, count: int, cluster: Cluster
) -> float:
    """Spread relative to packed: as measured, else by the network."""
    device = catalogue.get(group.device)
    measured = apart(known, device.like or device.name, count, group.devices)
    if measured is not None:
        return measured
    if count > group.devices:  # it crosses nodes anyway
        return 1.0
    return spread_factor(device, profile.kind, count, cluster.network)
