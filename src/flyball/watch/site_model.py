"""Models the site as the decision kernel sees it: like nodes, and what each job asks of them.

All nodes count as one device type, because run times are learnt from the site's own history and
hold for its mix of types; which nodes a job may use (partition, type of GPU, features) is a label
that those nodes have. On a site with GPUs they are the devices and cores belong to the host;
elsewhere cores are the devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flyball.control.jobs.node_choice import CORE
from flyball.control.jobs.request import Demand, cluster_of, cores_per_device
from flyball.core.cluster import MAX_DEVICES_PER_NODE, MAX_POOLS, Cluster
from flyball.core.errors import BadInput
from flyball.core.live import LiveNode
from flyball.engines.slurm.queue_text import QueuedJob
from flyball.engines.slurm.records_text import SlurmNode

DEVICE = "V100"
"""Stands for every type of GPU."""
_SIMPLE_FEATURES = re.compile(r"[\w.-]+(&[\w.-]+)*")


class Place(NamedTuple):
    """Names the nodes that a job may use: partitions, type of GPU ("any", a name, "" = none)."""

    partitions: tuple[str, ...]
    gpu: str
    features: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return the label that these nodes have."""
        return f"{','.join(self.partitions)}|{self.gpu}|{'&'.join(self.features)}"

    def holds(self, node: SlurmNode) -> bool:
        """Return whether a node is one of them."""
        if not set(self.partitions) & set(node.partitions):
            return False
        if self.gpu and (not node.gpus or self.gpu not in ("any", node.gpu_type)):
            return False
        return set(self.features) <= set(node.features)


def place_of(job: QueuedJob) -> Place:
    """Return where a job may run. Of constraints only `a&b` is understood; others are left out."""
    simple = _SIMPLE_FEATURES.fullmatch(job.features)
    features = tuple(sorted(job.features.split("&"))) if simple else ()
    return Place(tuple(sorted(job.partitions)), (job.gpu_type or "any") * bool(job.gpus), features)


class SiteModel:
    """Holds nodes, cluster and the translation of requests.

    Attributes:
        nodes: as the kernel sees them, like ones side by side.
        index: the place of each node in that order, by name.
        by_cores: whether cores are the devices.
        down: indices of the nodes on which no job may start.
    """

    def __init__(self, name: str, nodes: Sequence[SlurmNode], places: Iterable[Place]) -> None:
        """
        Raises:
            BadInput: no nodes, or too many kinds of them.
        """
        if not nodes:
            raise BadInput("the site has no nodes", "check `scontrol show node`")
        self.by_cores = not any(node.gpus for node in nodes)
        self.by_name = {node.name: node for node in nodes}
        requested = sorted(set(places), key=lambda place: place.label)
        cores_each = max(cores_per_device(node.cpus) for node in nodes)
        modelled = [(node, self._modelled(node, requested, cores_each)) for node in nodes]
        modelled.sort(key=lambda pair: (pair[1][1:5], pair[1].features))
        self.nodes = [live for _node, live in modelled]
        self.index = {live.name: at for at, live in enumerate(self.nodes)}
        self.down = {at for at, (node, _live) in enumerate(modelled) if not node.available}
        self.cluster: Cluster = cluster_of(self.nodes, name)
        self.demand = Demand(self.nodes)
        if len(self.cluster.groups) > MAX_POOLS:
            raise BadInput(
                f"{len(self.cluster.groups)} kinds of nodes and partitions; we handle {MAX_POOLS}",
                "watch fewer partitions with --partition",
            )

    def _modelled(self, node: SlurmNode, places: Sequence[Place], cores_each: int) -> LiveNode:
        devices = -(-node.cpus // cores_each) if self.by_cores else max(1, node.gpus)
        return LiveNode(
            name=node.name,
            device=CORE if self.by_cores else DEVICE,
            devices=min(MAX_DEVICES_PER_NODE, devices),
            cpus=node.cpus,
            memory_mib=node.memory_mib,
            features=tuple(place.label for place in places if place.holds(node)),
        )

    def allowed(self, place: Place) -> list[SlurmNode]:
        """Return the nodes that a job may use, whether or not they are available now."""
        return [node for node in self.by_name.values() if place.holds(node)]
