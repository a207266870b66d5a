"""Words names, numbers and durations for explanations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flyball.core.cluster import OTHERS, NodeGroup
from flyball.core.knobs import MEDIAN
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
"""Maximum number of names in a list before `and n more`."""


@dataclass(frozen=True)
class Names:
    """Holds the names of jobs, nodes and device types that users see; numbers by default.

    Attributes:
        jobs: names by job index.
        groups: prefixes of the nodes' names, by pool.
        types: device types, by pool.
        tenants: names by tenant code.
        unit: the word for a device: `core`, `GPU`, or `device` if there are several kinds.
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
        """Build the names of a workload's jobs and tenants and of a cluster's nodes."""
        devices = [group.device for group in groups]
        return cls(ids, [group.name for group in groups], devices, tenants, unit_of(groups))

    @property
    def units(self) -> str:
        """Return the plural of `unit`."""
        return f"{self.unit}s"

    def job(self, job_id: int) -> str:
        return str(self.jobs[job_id]) if len(self.jobs) else f"#{job_id}"

    def group(self, pool_id: int) -> str:
        return self.groups[pool_id] if self.groups else f"p{pool_id}-"

    def type(self, pool_id: int) -> str:
        return self.types[pool_id] if self.types else f"pool {pool_id}"

    def tenant(self, tenant_id: int) -> str:
        """Return the name of a tenant by its code in the workload; jobs without one: `others`."""
        if 0 <= tenant_id < len(self.tenants):
            return self.tenants[tenant_id]
        return OTHERS if tenant_id < 0 or self.tenants else f"#{tenant_id}"

    def node(self, state: State, node_id: int) -> str:
        """Return the group's name and the number within the group."""
        pool_id = int(state.nodes[node_id].pool)
        return f"{self.group(pool_id)}{node_id - int(state.pools[pool_id].first_node)}"


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return `a`, `a and b`, `a, b and c`, or `a, b, c and 4 more`."""
    every = list(dict.fromkeys(names))
    if len(every) > LISTED + 1:
        every = [*every[:LISTED], f"{len(every) - LISTED} more"]
        last = "and"
    return f" {last} ".join([", ".join(every[:-1]), every[-1]]) if len(every) > 1 else every[0]


def counted(count: int, noun: str) -> str:
    """Return `1 job` or `1,200 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def gang(devices: int, milli: int = MILLI_PER_DEVICE, unit: str = DEVICE) -> str:
    """Return `8 GPUs`, `0.25 of a GPU`, or `0.5 of each of 2 GPUs`."""
    if milli == MILLI_PER_DEVICE:
        return counted(devices, unit)
    share = f"{milli / MILLI_PER_DEVICE:g} of "
    return share + (f"a {unit}" if devices == 1 else f"each of {devices} {unit}s")


def span_text(microseconds: float) -> str:
    """Return a duration as words."""
    return duration_text(to_s(microseconds))


def quantile_text(level: float) -> str:
    """Return ` (90 % quantile)` after a run time at this level; nothing after a plain estimate."""
    return "" if level == MEDIAN else f" ({level * 100:g} % quantile)"


def at_most_text(microseconds: float) -> str:
    """Return a duration as words, rounded down so that `at most` stays true."""
    seconds = to_s(microseconds)
    for unit in (S_PER_DAY, S_PER_HOUR, S_PER_MIN):
        if seconds >= 2 * unit:
            return duration_text(math.floor(seconds / unit * 10) / 10 * unit)
    return duration_text(math.floor(seconds) if seconds >= 10 else math.floor(seconds * 10) / 10)


def power_text(watts: float, up: bool = False) -> str:
    """Return `1.25 kW` or `300 W`; rounded up if it states how much is enough."""
    kilo = abs(watts) >= 1000
    if up:
        watts = math.ceil(watts / 10) * 10 if kilo else math.ceil(watts)
    return f"{watts / 1000:.2f} kW" if kilo else f"{watts:.0f} W"


def sentence(*parts: str) -> str:
    """Join the parts that are not empty by semicolons; capital first, full stop last."""
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def are(count: int) -> str:
    """Return `is` or `are`."""
    return "is" if count == 1 else "are"


ANOTHER_LEVEL_S = 1e9
"""Difference of keys beyond which it is due to priorities or to the queues of `attained`."""
