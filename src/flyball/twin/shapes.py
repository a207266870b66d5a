"""Shapes: jobs that ask for the same thing, and could run in the same pools."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core import state as s
from flyball.core.errors import BadInput, at
from flyball.core.grouping import Groups, group_rows
from flyball.core.knobs import Knobs, Order
from flyball.core.state import CAP_LEVELS, Records, records
from flyball.core.units import MIB_PER_GIB, MILLI_PER_DEVICE, POWER_SLACK
from flyball.core.workload import Workload

Bools = npt.NDArray[np.bool_]


class Offer(NamedTuple):
    """What a cluster offers to jobs."""

    pools: Records
    rates: Records
    caps: Records
    knobs: Knobs
    clock: Records


class Limits(NamedTuple):
    """Per job (row) and pool (column): which of the pool's limits the job keeps."""

    runs: Bools
    memory: Bools
    devices: Bools
    power: Bools


def group_shapes(workload: Workload, jobs: Records, offer: Offer) -> Records:
    """The shapes of a workload; sets `jobs.shape_id`.

    Raises:
        BadInput: a job that no pool could ever hold.
    """
    limits = _limits(jobs, offer)
    could = limits.runs & limits.memory & limits.devices & limits.power
    _refuse_impossible(workload, could, limits, offer)
    bits = np.uint64(1) << np.arange(len(offer.pools), dtype=np.uint64)
    mask = (could * bits).sum(axis=1)
    memory = np.where(jobs.milli < MILLI_PER_DEVICE, jobs.memory_mib, 0)
    columns = [jobs.devices, jobs.milli, memory, jobs.profile, mask.view(np.int64)]
    if offer.knobs.order == Order.FAIR:
        columns.append(jobs.tenant)
    groups = group_rows(*columns)
    jobs.shape_id = groups.of_row
    shapes = records(len(groups.first), s.SHAPE)
    for name in ("devices", "milli", "profile"):
        shapes[name] = jobs[name][groups.first]
    shapes.memory_mib = memory[groups.first]
    shapes.pools = mask[groups.first]
    lay_out(shapes, groups)
    return shapes


def lay_out(shapes: Records, groups: Groups) -> None:
    """Give every shape its stretch of the queue, empty."""
    counts = np.bincount(groups.of_row)
    room = -(-counts // 4) * 4 + 4
    shapes.begin = np.cumsum(room) - room + s.HEAP_OFFSET
    shapes.pending = shapes.blocked = shapes.passed = 0
    shapes.too_long_us = shapes.shortest_us = np.inf
    shapes["sample"] = groups.first


def _limits(jobs: Records, offer: Offer) -> Limits:
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
    return Limits(
        runs=rates.packed[jobs.profile] > 0,
        memory=jobs.memory_mib[:, None] <= pools.memory_mib,
        devices=jobs.devices[:, None] <= room,
        power=power,
    )


def _refuse_impossible(workload: Workload, could: Bools, limits: Limits, offer: Offer) -> None:
    bad = np.flatnonzero(~could.any(axis=1))
    if not len(bad):
        return
    job = int(bad[0])
    row = int(workload.row[job])
    where = at(workload.name, row if row >= 0 else None)
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    raise BadInput(
        f"{where}: job {workload.ids[job]!s} {_why(workload, job, limits, offer)}{more}",
        "drop it, or choose a larger cluster",
    )


def _why(workload: Workload, job: int, limits: Limits, offer: Offer) -> str:
    """The limit that no pool meets, in words."""
    pools, clock = offer.pools, offer.clock[0]
    devices, memory_gib = int(workload.devices[job]), workload.memory_mib[job] / MIB_PER_GIB
    if not limits.devices[job].any():
        split = workload.milli[job] < MILLI_PER_DEVICE
        most = (pools.capacity if split else pools.capacity * pools.nodes).max()
        return f"asks for {devices} devices and the largest pool offers it {most}"
    if not limits.memory[job].any():
        most_gib = pools.memory_mib.max() / MIB_PER_GIB
        return f"needs {memory_gib:g} GiB on a device and the largest has {most_gib:g}"
    if not limits.runs[job].any():
        return "has a model that runs on none of the device types"
    if not limits.power[job].any():
        return (
            f"would exceed the power budget of {clock.budget_w / 1000:g} kW even alone: "
            f"the idle cluster draws {clock.power_w / 1000:.3g} kW"
        )
    return f"finds no pool with {devices} devices of {memory_gib:g} GiB that runs it"
