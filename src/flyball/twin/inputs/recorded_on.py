"""On which device type a trace's durations were recorded, and how far they are scaled from it.

A duration holds on the hardware it was recorded on. Where a trace names none it must come from
the user, the cluster file or the cluster itself: never from a default that nobody sees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.cluster import Cluster
from flyball.core.units import MIB_PER_GIB
from flyball.core.workload import Workload
from flyball.physics import catalogue
from flyball.twin.rates import find_profiles, rate_table


class Scaling(NamedTuple):
    """Jobs recorded on one type that may run on another, and how fast they run there.

    Attributes:
        recorded_on, runs_on: device types of the catalogue.
        jobs: how many there are.
        slowest, fastest: speeds relative to the recorded run; 0.5 = twice the duration.
    """

    recorded_on: str
    runs_on: str
    jobs: int
    slowest: float
    fastest: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self._asdict()


@dataclass(frozen=True)
class Recording:
    """Where the durations of a workload were recorded.

    Attributes:
        workload: the jobs, each of those with devices with its device type.
        assumption: a sentence if the type of some jobs was assumed, else "".
    """

    workload: Workload
    assumption: str = ""


def settle_recorded_on(workload: Workload, cluster: Cluster, named: str = "") -> Recording:
    """Give every job with devices the type its duration was recorded on.

    A job that names its device keeps it. For the others it is `named`, else what the cluster
    file states, else the cluster's only type, else its commonest one, which is an assumption.

    Args:
        workload: as read from a trace.
        cluster: where it is to be run.
        named: the user's answer, "" = none.

    Raises:
        UnknownName: `named` is no device type.
    """
    stated = named or cluster.recorded_on
    stated = catalogue.get(stated).name if stated else ""
    unnamed = (workload.device < 0) & (workload.devices > 0)
    if not unnamed.any():
        return Recording(workload)
    counts = device_counts(cluster)
    device = stated or max(counts, key=lambda name: counts[name])
    assumption = ""
    if not stated and len(counts) > 1:
        jobs = int(unnamed.sum())
        assumption = (
            f"{_jobs(jobs)} {'name' if jobs > 1 else 'names'} no device type: taken as recorded on "
            f"{device}, the commonest of {cluster.name} ({counts[device]} of "
            f"{sum(counts.values())} devices); say otherwise with --recorded-on TYPE or "
            "recorded_on: in the cluster file"
        )
    names = workload.device_names
    if device not in names:
        names = (*names, device)
    codes = np.where(unnamed, names.index(device), workload.device)
    return Recording(replace(workload, device=codes, device_names=names), assumption)


def device_counts(cluster: Cluster) -> Counter[str]:
    """Devices of each type of a cluster; CPUs count only where there is nothing else.

    Traces count accelerators, so a node of CPUs beside them is not where they were recorded.
    """
    counts: Counter[str] = Counter()
    for group in cluster.groups:
        counts[catalogue.get(group.device).name] += group.count * group.devices
    accelerators = {name: n for name, n in counts.items() if catalogue.get(name).kind != "cpu"}
    return Counter(accelerators) if accelerators else counts


def recorded_counts(workload: Workload) -> dict[str, int]:
    """Jobs by the device type they were recorded on; those without devices are left out."""
    codes = workload.device[(workload.devices > 0) & (workload.device >= 0)]
    counts: Counter[str] = Counter()
    for code, jobs in zip(*np.unique(codes, return_counts=True), strict=True):
        counts[catalogue.get(workload.device_names[code]).name] += int(jobs)
    return dict(sorted(counts.items()))


def scalings(workload: Workload, cluster: Cluster) -> list[Scaling]:
    """Every pair of types between which durations are scaled, by name."""
    profiles = find_profiles(workload)
    pools = cluster.groups
    table = rate_table(profiles, cluster, True).packed.reshape(-1, len(pools))
    speeds = table[profiles.of_job]
    base_of = np.array([profile.base for profile in profiles.profiles])
    scaled = _fits(workload, cluster) & (speeds > 0) & (speeds != 1.0)
    found = []
    for base in sorted(set(base_of.tolist())):
        of_base = (base_of == base)[profiles.of_job] & (workload.devices > 0)
        for device in sorted({group.device for group in pools} - {base}):
            columns = np.array([group.device == device for group in pools])
            here = scaled[:, columns] & of_base[:, None]
            if here.any():
                rates, jobs = speeds[:, columns][here], int(here.any(axis=1).sum())
                found.append(Scaling(base, device, jobs, float(rates.min()), float(rates.max())))
    return found


def _fits(workload: Workload, cluster: Cluster) -> npt.NDArray[np.bool_]:
    """Per job and pool: whether the pool has the devices and the memory it asks for."""
    pools = cluster.groups
    room = np.array([group.count * group.devices for group in pools])
    memory_mib = np.array(
        [round(catalogue.get(group.device).memory_gib * MIB_PER_GIB) for group in pools]
    )
    fits: npt.NDArray[np.bool_] = (workload.devices[:, None] <= room) & (
        workload.memory_mib[:, None] <= memory_mib
    )
    return fits


def sentences(found: Sequence[Scaling]) -> list[str]:
    """A sentence for each recorded type.

    E.g. `412 jobs recorded on A100 run on T4 at 0.14 to 0.31 of their speed; 400 on V100 at 0.5`.
    """
    return [_sentence(list(group)) for _, group in groupby(found, lambda each: each.recorded_on)]


def _sentence(group: list[Scaling]) -> str:
    first, *others = group
    verb, whose = ("run", "their") if first.jobs > 1 else ("runs", "its")
    text = (
        f"{_jobs(first.jobs)} recorded on {first.recorded_on} {verb} on {first.runs_on} "
        f"at {_range(first)} of {whose} speed"
    )
    return "; ".join(
        (text, *(f"{each.jobs:,} on {each.runs_on} at {_range(each)}" for each in others))
    )


def _range(scaling: Scaling) -> str:
    slowest, fastest = f"{scaling.slowest:.3g}", f"{scaling.fastest:.3g}"
    return slowest if slowest == fastest else f"{slowest} to {fastest}"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
