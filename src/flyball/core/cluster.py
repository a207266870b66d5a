"""A cluster as a user describes it: groups of identical nodes, a network, a power budget if any."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import NamedTuple

from flyball.core.signals import Signal

MAX_DEVICES_PER_NODE = 64
MAX_POOLS = 62
SHOWN_GROUPS = 6
"""Maximum number of groups in the short form of a cluster."""


class ModelSpeed(NamedTuple):
    """Measured speed of a model: `times` as fast as on the type `against` (`DefinedType`)."""

    model: str
    times: float
    against: str


@dataclass(frozen=True)
class DefinedType:
    """A device type that a cluster file defines: a type of the catalogue with some other figures.

    Attributes:
        name: as the file's groups of nodes use it.
        like: the type of the catalogue it is based on; gives every figure that is not stated.
        memory_gib, idle_w, peak_w: as in the catalogue; None = as `like`.
        speed: how many times as fast as `like` it runs models that were not measured.
        speeds: measured speeds, by model.
    """

    name: str
    like: str
    memory_gib: float | None = None
    idle_w: float | None = None
    peak_w: float | None = None
    speed: float = 1.0
    speeds: tuple[ModelSpeed, ...] = ()


@dataclass(frozen=True)
class NodeGroup:
    """A group of `count` identical nodes.

    Attributes:
        name: prefix of the nodes' names.
        device: device type, a name in the catalogue.
        devices: devices per node.
        cpus: host cores per node.
        memory_gib: host memory per node.
    """

    name: str
    count: int
    device: str
    devices: int
    cpus: int = 64
    memory_gib: float = 512.0


@dataclass(frozen=True)
class Network:
    """Bandwidth between nodes and between the devices of one node, per direction."""

    between_nodes_gbit_s: float = 100.0
    inside_node_gbit_s: float = 1200.0


@dataclass(frozen=True)
class Tenant:
    """One of those that share the cluster under order = fair.

    Attributes:
        name: as in the workload; `others` stands for jobs without a tenant.
        quota: devices it is guaranteed.
        borrow: devices it may use beyond its quota while they are idle; None = no limit.
        weight: how much it may use, relative to others, before they come first.
    """

    name: str
    quota: int
    borrow: int | None = None
    weight: float = 1.0


OTHERS = "others"
"""The tenant of jobs without one."""


@dataclass(frozen=True)
class Cluster:
    """Nodes, network, power budget and tenants. Nodes are numbered group by group, in this order.

    `recorded_on` is the device type of traces that name none, "" = not stated. `types` are device
    types that it defines; `flyball.physics.catalogue.define` registers them. `price` is that of a
    kWh in its `currency`, `carbon` the grams of CO2 per kWh; None = not given. `power_budget_w`,
    `money_per_day` and `carbon_kg_per_day` are budgets, 0 = none.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    power_budget_w: float = 0.0
    network: Network = field(default_factory=Network)
    tenants: tuple[Tenant, ...] = ()
    recorded_on: str = field(default="", repr=False)  # not in `digest_text`
    types: tuple[DefinedType, ...] = field(default=(), repr=False)
    price: Signal | None = field(default=None, repr=False)
    carbon: Signal | None = field(default=None, repr=False)
    currency: str = field(default="", repr=False)
    money_per_day: float = field(default=0.0, repr=False)
    carbon_kg_per_day: float = field(default=0.0, repr=False)

    def __repr__(self) -> str:
        shown = [f"{g.count} x {g.devices} {g.device}" for g in self.groups[:SHOWN_GROUPS]]
        if len(self.groups) > SHOWN_GROUPS:
            shown.append(f"{len(self.groups) - SHOWN_GROUPS} more groups")
        count = f"{self.node_count:,} node{'' if self.node_count == 1 else 's'}"
        return f"Cluster({self.name!r}: {count}, {self.device_count:,} devices: {', '.join(shown)})"

    def digest_text(self) -> str:
        """Return the text that digests of decisions hash; it must stay the same for old journals.

        Fields with `repr=False` are not part of it.
        """
        parts = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
        return f"Cluster({', '.join(parts)})"

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def device_count(self) -> int:
        return sum(group.count * group.devices for group in self.groups)
