"""How explanations name things and say numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flyball.core.cluster import OTHERS, NodeGroup
from flyball.core.state import State
from flyball.core.units import (
    MILLI_PER_DEVICE,
    S_PER_DAY,
    S_PER_HOUR,
    S_PER_MIN,
    duration_text,
    to_s,
)
from flyball.physics.catalogue import DEVICE, unit_of

LISTED = 3
"""Names in a list before it says `and n more`."""


@dataclass(frozen=True)
class Names:
    """What users call jobs, nodes and device types; numbers where nothing is given.

    Attributes:
        jobs: by job index.
        groups: the prefix of the nodes' names, by pool.
        types: the device type, by pool.
        tenants: by the jobs' tenant.
        unit: what a device is called: `core`, `GPU`, or `device` if there are several kinds.
    """

    jobs: Sequence[str] = ()
    groups: Sequence[str] = ()
    types: Sequence[str] = ()
    tenants: Sequence[str] = ()
    unit: str = DEVICE

    @classmethod
    def of(
        cls, ids: Sequence[str], groups: Sequence[NodeGroup], tenants: Sequence[str] = ()
    ) -> Names:
        """The names of a workload's jobs and tenants and of a cluster's nodes."""
        devices = [each.device for each in groups]
        return cls(ids, [each.name for each in groups], devices, tenants, unit_of(groups))

    @property
    def units(self) -> str:
        """The plural of `unit`."""
        return f"{self.unit}s"

    def job(self, job_id: int) -> str:
        return str(self.jobs[job_id]) if len(self.jobs) else f"#{job_id}"

    def group(self, pool_id: int) -> str:
        return self.groups[pool_id] if self.groups else f"p{pool_id}-"

    def type(self, pool_id: int) -> str:
        return self.types[pool_id] if self.types else f"pool {pool_id}"

    def tenant(self, tenant_id: int) -> str:
        """The tenant of this code in the workload; the last row of all is that of no tenant."""
        if 0 <= tenant_id < len(self.tenants):
            return self.tenants[tenant_id]
        return OTHERS if tenant_id < 0 or self.tenants else f"#{tenant_id}"

    def node(self, state: State, node_id: int) -> str:
        """The group's name and the number within the group."""
        pool_id = int(state.nodes[node_id].pool)
        return f"{self.group(pool_id)}{node_id - int(state.pools[pool_id].first_node)}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`, `a, b, c and 4 more`."""
    every = list(dict.fromkeys(names))
    if len(every) > LISTED + 1:
        every = [*every[:LISTED], f"{len(every) - LISTED} more"]
        last = "and"
    return f" {last} ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else every[0]


def counted(count: int, noun: str) -> str:
    """`1 job`, `1,200 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def gang(devices: int, milli: int = MILLI_PER_DEVICE, unit: str = DEVICE) -> str:
    """`8 GPUs`, `0.25 of a GPU`, `0.5 of each of 2 GPUs`."""
    if milli == MILLI_PER_DEVICE:
        return counted(devices, unit)
    share = f"{milli / MILLI_PER_DEVICE:g} of "
    return share + (f"a {unit}" if devices == 1 else f"each of {devices} {unit}s")


def span_text(microseconds: float) -> str:
    """A duration of the kernel's for people."""
    return duration_text(to_s(microseconds))


def at_most_text(microseconds: float) -> str:
    """A duration for people, rounded down so that what is said of it stays true."""
    seconds = to_s(microseconds)
    for unit in (S_PER_DAY, S_PER_HOUR, S_PER_MIN):
        if seconds >= 2 * unit:
            return duration_text(math.floor(seconds / unit * 10) / 10 * unit)
    return duration_text(math.floor(seconds) if seconds >= 10 else math.floor(seconds * 10) / 10)


def power_text(watts: float, up: bool = False) -> str:
    """`1.25 kW` or `300 W`; rounded up if what is said of it is that so much is enough."""
    kilo = abs(watts) >= 1000
    if up:
        watts = math.ceil(watts / 10) * 10 if kilo else math.ceil(watts)
    return f"{watts / 1000:.2f} kW" if kilo else f"{watts:.0f} W"


def sentence(*parts: str) -> str:
    """The parts that are not empty, joined by semicolons: a capital first, a full stop last."""
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def are(count: int) -> str:
    return "is" if count == 1 else "are"


ANOTHER_LEVEL_S = 1e9
"""Differences of keys beyond this come from priorities or from the two queues of `attained`."""
