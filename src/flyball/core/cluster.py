"""A cluster as a user describes it: groups of like nodes, a network, perhaps a power budget."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_DEVICES_PER_NODE = 64
MAX_POOLS = 62


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

    `recorded_on` is the device type of traces that name none, "" = not stated.
    """

    name: str
    groups: tuple[NodeGroup, ...]
    power_budget_w: float = 0.0
    network: Network = field(default_factory=Network)
    tenants: tuple[Tenant, ...] = ()
    recorded_on: str = field(default="", repr=False)  # digests of decisions hash the repr

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def device_count(self) -> int:
        return sum(group.count * group.devices for group in self.groups)
