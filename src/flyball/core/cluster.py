"""A cluster as a user describes it: groups of like nodes, a network, perhaps a power budget."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

MAX_DEVICES_PER_NODE = 64
MAX_POOLS = 62


class ModelSpeed(NamedTuple):
    """A measured speed: how many times as fast as `against` the model runs; see `OwnType`."""

    model: str
    times: float
    against: str


@dataclass(frozen=True)
class OwnType:
    """A device type that a cluster file describes: like one of the catalogue, but for some figures.

    Attributes:
        name: as the file's groups of nodes use it.
        like: a type of the catalogue; what is not stated is as there.
        memory_gib, idle_w, peak_w: as in the catalogue; None = as `like`.
        speed: how many times as fast as `like` it runs what was not measured.
        speeds: what was measured, by model.
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
    """`count` nodes alike.

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
    """Links between nodes and between the devices of one node, per direction."""

    between_nodes_gbit_s: float = 100.0
    inside_node_gbit_s: float = 1200.0


@dataclass(frozen=True)
class Tenant:
    """Who shares the cluster, under order = fair.

    Attributes:
        name: as in the workload; `others` stands for jobs without a tenant.
        quota: devices that are its own whenever it wants them.
        borrow: devices it may use on top while nobody else wants them; None = no limit.
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
    """Nodes, network, budget, tenants. Nodes are numbered group by group, in this order.

    `recorded_on` is the device type of traces that name none, "" = not stated. `types` are device
    types of its own; `flyball.physics.catalogue.define` makes them known.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    power_budget_w: float = 0.0
    network: Network = field(default_factory=Network)
    tenants: tuple[Tenant, ...] = ()
    recorded_on: str = field(default="", repr=False)  # digests of decisions hash the repr
    types: tuple[OwnType, ...] = field(default=(), repr=False)

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def device_count(self) -> int:
        return sum(group.count * group.devices for group in self.groups)
