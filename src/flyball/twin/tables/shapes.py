"""Shapes: groups of jobs that ask for the same resources and could run in the same pools."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core import records as r
from flyball.core.errors import BadInput, at
from flyball.core.grouping import Groups, group_rows
from flyball.core.knobs import Knobs, Order
from flyball.core.records import CAP_LEVELS, Records, records
from flyball.core.units import MIB_PER_GIB, MILLI_PER_CORE, MILLI_PER_DEVICE, POWER_SLACK
from flyball.core.workload import Workload
from flyball.physics.catalogue import DEVICE

Bools = npt.NDArray[np.bool_]


class ClusterOffer(NamedTuple):
    """Holds what a cluster offers to jobs."""

    pools: Records
    rates: Records
    caps: Records
    knobs: Knobs
    clock: Records
    unit: str = DEVICE


class PoolLimits(NamedTuple):
    """Holds, by job (row) and pool (column), which limits of the pool the job meets."""

    runs: Bools
    memory: Bools
    devices: Bools
    power: Bools
    host: Bools
    allowed: Bools


def group_shapes(workload: Workload, jobs: Records, offer: ClusterOffer) -> Records:
    """Return the shapes of a workload; set `jobs.shape_id`.

    Raises:
        BadInput: a job that no pool could ever hold.
    """
    _refuse_empty_requests(workload)
    limits = _limits(workload, jobs, offer)
    could = np.logical_and.reduce(limits)
    _refuse_impossible(workload, could, limits, offer)
    bits = np.uint64(1) << np.arange(len(offer.pools), dtype=np.uint64)
    mask = (could * bits).sum(axis=1)
    memory = np.where(jobs.milli < MILLI_PER_DEVICE, jobs.memory_mib, 0)
    columns = [jobs.devices, jobs.milli, memory, workload.cpu_milli, workload.host_mib]
    columns += [jobs.profile, mask.view(np.int64)]
    if offer.knobs.order == Order.FAIR:
        columns.append(jobs.tenant)
    groups = group_rows(*columns)
    jobs.shape_id = groups.of_row
    shapes = records(len(groups.first), r.SHAPE)
    for name in ("devices", "milli", "profile"):
        shapes[name] = jobs[name][groups.first]
    shapes.memory_mib = memory[groups.first]
    shapes.cpu_milli = workload.cpu_milli[groups.first]
    shapes.host_mib = workload.host_mib[groups.first]
    shapes.pools = mask[groups.first]
    lay_out(shapes, groups)
    return shapes


def lay_out(shapes: Records, groups: Groups) -> None:
    """Give every shape its part of the queue, empty."""
    counts = np.bincount(groups.of_row)
    room = -(-counts // 4) * 4 + 4
    shapes.begin = np.cumsum(room) - room + r.HEAP_OFFSET
    shapes.pending = shapes.blocked = shapes.passed = 0
    shapes.too_long_us = shapes.shortest_us = np.inf
    shapes["sample"] = groups.first


def _limits(workload: Workload, jobs: Records, offer: ClusterOffer) -> PoolLimits:
    pools, clock = offer.pools, offer.clock[0]
    rates: Any = offer.rates.reshape(-1, len(pools))
    fraction = (jobs.milli < MILLI_PER_DEVICE)[:, None]
    room = np.where(fraction, pools.capacity, pools.capacity * pools.nodes.astype(np.int64))
    power = np.ones((len(jobs), len(pools)), bool)
    if clock.budget_w > 0:
        cap_power = offer.caps.power.reshape(-1, CAP_LEVELS)[:, offer.knobs.pack()[0].cap]
        share = (jobs.devices * jobs.milli / MILLI_PER_DEVICE)[:, None]
        extra_w = share * (rates.watts[jobs.profile] * cap_power - pools.idle_w)
        power = clock.power_w + extra_w <= clock.budget_w * POWER_SLACK
    return PoolLimits(
        runs=rates.packed[jobs.profile] > 0,
        memory=jobs.memory_mib[:, None] <= pools.memory_mib,
        devices=jobs.devices[:, None] <= room,
        power=power,
        host=(_on_a_node(workload, workload.cpu_milli, pools) <= pools.cpu_milli)
        & (_on_a_node(workload, workload.host_mib, pools) <= pools.host_mib),
        allowed=_allowed(workload, len(pools)),
    )


def _allowed(workload: Workload, pools: int) -> Bools:
    """Return, by job and pool, whether the job's choice of nodes admits the pool."""
    if not workload.pools.any():
        return np.ones((len(workload), pools), bool)
    chosen: Bools = workload.pools[:, None] >> np.arange(pools) & 1 > 0
    chosen[workload.pools == 0] = True
    return chosen


def _but_for_power(limits: PoolLimits) -> Bools:
    """Return, by job and pool, whether only the power budget rules the pool out."""
    others = limits.runs & limits.memory & limits.devices & limits.host & limits.allowed
    return others & ~limits.power


def _on_a_node(workload: Workload, demand: npt.NDArray[np.int64], pools: Records) -> Any:
    """Return, by job and pool, the largest part of a host demand that one node must meet."""
    if not demand.any():
        return np.zeros((len(workload), len(pools)), np.int64)
    total, gang = demand[:, None], np.maximum(1, workload.devices)[:, None]
    spread = -(-total * pools.capacity.astype(np.int64) // gang)
    return np.where(gang > pools.capacity, spread, total)


def _refuse_empty_requests(workload: Workload) -> None:
    """Refuse a job that asks for neither devices nor a part of a host."""
    empty = (workload.devices == 0) & (workload.cpu_milli == 0) & (workload.host_mib == 0)
    bad = np.flatnonzero(empty | (workload.cpu_milli < 0) | (workload.host_mib < 0))
    if len(bad):
        job = int(bad[0])
        row, cores = int(workload.row[job]), workload.cpu_milli[job] / MILLI_PER_CORE
        raise BadInput(
            f"{at(workload.name, row if row >= 0 else None)}: job {workload.ids[job]!s} asks for "
            f"{workload.devices[job]} devices, {cores:g} cores and "
            f"{workload.host_mib[job] / MIB_PER_GIB:g} GiB of a host",
            "drop it, or state what it needs",
        )


def _refuse_impossible(
    workload: Workload, could: Bools, limits: PoolLimits, offer: ClusterOffer
) -> None:
    bad = np.flatnonzero(~could.any(axis=1))
    if not len(bad):
        return
    job = int(bad[0])
    row = int(workload.row[job])
    where = at(workload.name, row if row >= 0 else None)
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    raise BadInput(
        f"{where}: job {workload.ids[job]!s} {_why(workload, job, limits, offer)}{more}",
        "drop it (--skip-unfit leaves out all such jobs), or choose a larger cluster",
    )


def find_unfit(
    workload: Workload, jobs: Records, offer: ClusterOffer
) -> dict[str, npt.NDArray[np.intp]]:
    """Return the jobs that no pool could ever hold, by the limit that rules them out."""
    limits = _limits(workload, jobs, offer)
    left = ~np.logical_and.reduce(limits).any(axis=1)
    unit = offer.unit
    reasons = {
        f"more {unit}s than the largest group of nodes has": limits.devices,
        f"more memory than a {unit} has": limits.memory,
        "more host cores or memory than a node has": limits.host,
        "a model that runs on none of the device types": limits.runs,
    }
    by_power = left & _but_for_power(limits).any(axis=1)
    unfit = {"beyond the power budget even alone": np.flatnonzero(by_power)}
    left &= ~by_power
    for reason, limit in reasons.items():
        unfit[reason] = np.flatnonzero(left & ~limit.any(axis=1))
        left &= limit.any(axis=1)
    unfit["no group of nodes meets all that it asks for"] = np.flatnonzero(left)
    return {reason: rows for reason, rows in unfit.items() if len(rows)}


def _why(workload: Workload, job: int, limits: PoolLimits, offer: ClusterOffer) -> str:
    """Return a description of the limit that rules the job out."""
    pools, clock, unit = offer.pools, offer.clock[0], offer.unit
    devices, memory_gib = int(workload.devices[job]), workload.memory_mib[job] / MIB_PER_GIB
    if _but_for_power(limits)[job].any():
        return (
            f"would exceed the power budget of {clock.budget_w / 1000:g} kW even alone: "
            f"the idle cluster draws {clock.power_w / 1000:.3g} kW"
        )
    if not limits.devices[job].any():
        split = workload.milli[job] < MILLI_PER_DEVICE
        most = (pools.capacity if split else pools.capacity * pools.nodes).max()
        largest = "node" if split or (pools.nodes == 1).all() else "group of nodes"
        return f"asks for {devices} {unit}{'s' * (devices != 1)}; the largest {largest} has {most}"
    if not limits.memory[job].any():
        most_gib = pools.memory_mib.max() / MIB_PER_GIB
        return f"needs {memory_gib:g} GiB on a {unit} and the largest has {most_gib:g}"
    if not limits.host[job].any():
        return _why_host(workload, job, pools)
    if not limits.runs[job].any():
        return "has a model that runs on none of the device types"
    host = " on a host large enough" if workload.cpu_milli[job] or workload.host_mib[job] else ""
    return f"finds no pool with {devices} {unit}s of {memory_gib:g} GiB that runs it{host}"


def _why_host(workload: Workload, job: int, pools: Records) -> str:
    """Return a description of its host demand and of the largest hosts."""
    of_one: Any = workload.take(np.array([job]))
    cpu_milli = _on_a_node(of_one, of_one.cpu_milli, pools).min()
    host_mib = _on_a_node(of_one, of_one.host_mib, pools).min()
    return (
        f"needs {cpu_milli / MILLI_PER_CORE:g} cores and {host_mib / MIB_PER_GIB:g} GiB of a "
        f"node's host, and the largest hosts have {pools.cpu_milli.max() / MILLI_PER_CORE:g} cores "
        f"and {pools.host_mib.max() / MIB_PER_GIB:g} GiB"
    )
