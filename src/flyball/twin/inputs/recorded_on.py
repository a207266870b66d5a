"""On which device type a trace's durations were recorded, and how far they are scaled from it.

A duration holds for the hardware it was recorded on. Where a trace names no device type, it comes
from the user, the cluster file or the cluster itself, never from a silent default.
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
from flyball.twin.tables.rates import find_profiles, rate_table


class Scaling(NamedTuple):
    """Holds the speed of jobs recorded on one device type that may run on another.

    Attributes:
        recorded_on, runs_on: device types of the catalogue.
        jobs: number of such jobs.
        slowest, fastest: speeds relative to the recorded run; 0.5 = twice the duration.
    """

    recorded_on: str
    runs_on: str
    jobs: int
    slowest: float
    fastest: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return self._asdict()


@dataclass(frozen=True)
class Recording:
    """Holds a workload and where its durations were recorded.

    Attributes:
        workload: the jobs; every job with devices has a device type.
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
        cluster: the cluster it will run on.
        named: the user's choice, "" = none.

    Raises:
        UnknownName: `named` is not a device type.
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
    """Count a cluster's devices by type; CPUs count only where there is nothing else.

    Traces count accelerators, so their jobs were not recorded on a node that has only CPUs.
    """
    counts: Counter[str] = Counter()
    for group in cluster.groups:
        counts[catalogue.get(group.device).name] += group.count * group.devices
    accelerators = {name: n for name, n in counts.items() if catalogue.get(name).kind != "cpu"}
    return Counter(accelerators) if accelerators else counts


def recorded_counts(workload: Workload) -> dict[str, int]:
    """Count jobs by the device type they were recorded on, without jobs that use no devices."""
    codes = workload.device[(workload.devices > 0) & (workload.device >= 0)]
    counts: Counter[str] = Counter()
    for code, jobs in zip(*np.unique(codes, return_counts=True), strict=True):
        counts[catalogue.get(workload.device_names[code]).name] += int(jobs)
    return dict(sorted(counts.items()))


def scalings(workload: Workload, cluster: Cluster) -> list[Scaling]:
    """Return every pair of types between which durations are scaled, by name."""
    profiles = find_profiles(workload)
    pools = cluster.groups
    table = rate_table(profiles, cluster, True).packed.reshape(-1, len(pools))
    speeds = table[profiles.of_job]
    base_of = np.array([profile.base for profile in profiles.profiles])
    scaled = _fits(workload, cluster) & (speeds > 0) & (speeds != 1.0)
    results = []
    for base in sorted(set(base_of.tolist())):
        of_base = (base_of == base)[profiles.of_job] & (workload.devices > 0)
        for device in sorted({group.device for group in pools} - {base}):
            columns = np.array([group.device == device for group in pools])
            here = scaled[:, columns] & of_base[:, None]
            if here.any():
                rates, jobs = speeds[:, columns][here], int(here.any(axis=1).sum())
                results.append(Scaling(base, device, jobs, float(rates.min()), float(rates.max())))
    return results


def _fits(workload: Workload, cluster: Cluster) -> npt.NDArray[np.bool_]:
    """Return, per job and pool, whether the pool has the devices and the memory it asks for."""
    pools = cluster.groups
    room = np.array([group.count * group.devices for group in pools])
    memory_mib = np.array(
        [round(catalogue.get(group.device).memory_gib * MIB_PER_GIB) for group in pools]
    )
    fits: npt.NDArray[np.bool_] = (workload.devices[:, None] <= room) & (
        workload.memory_mib[:, None] <= memory_mib
    )
    return fits


def sentences(scalings: Sequence[Scaling]) -> list[str]:
    """Return a sentence for each recorded type.

    E.g. `412 jobs recorded on A100 run on T4 at 0.14 to 0.31 of their speed; 400 on V100 at 0.5`.
    """
    return [
        _sentence(list(group))
        for _, group in groupby(scalings, lambda scaling: scaling.recorded_on)
    ]


def _sentence(group: list[Scaling]) -> str:
    first, *others = group
    verb, possessive = ("run", "their") if first.jobs > 1 else ("runs", "its")
    text = (
        f"{_jobs(first.jobs)} recorded on {first.recorded_on} {verb} on {first.runs_on} "
        f"at {_range(first)} of {possessive} speed"
    )
    return "; ".join(
        (text, *(f"{other.jobs:,} on {other.runs_on} at {_range(other)}" for other in others))
    )


def _range(scaling: Scaling) -> str:
    slowest, fastest = f"{scaling.slowest:.3g}", f"{scaling.fastest:.3g}"
    return slowest if slowest == fastest else f"{slowest} to {fastest}"


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"
