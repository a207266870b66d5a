"""The nodes of a Slurm site, as the control plane sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from flyball.core.cluster import MAX_DEVICES_PER_NODE
from flyball.core.errors import BadInput, Unavailable
from flyball.core.live import NOBODY, LiveNode
from flyball.engines.slurm.commands import Commands
from flyball.engines.slurm.own_jobs import COLUMNS, OwnJob, OwnJobs
from flyball.engines.slurm.own_request import SlurmSettings
from flyball.engines.slurm.records_text import SlurmNode, expanded, read_nodes, read_partitions

CORE = "CPU1"
Part = tuple[int, int, int]
"""GPUs, cores and MiB of memory of a node."""
PAUSE_S = 60.0
"""How long a node is left alone on which a job of ours did not begin."""


class OwnNodes:
    """Reads the nodes of one partition, and leaves some alone for a while. Safe from any thread.

    What Slurm has given of a node, but not to jobs of ours, others have.

    Attributes:
        addresses: at which other nodes reach them, by name.
    """

    def __init__(
        self,
        settings: SlurmSettings,
        name_device: Callable[[str], str],
        environment: Mapping[str, str] | None,
        jobs: OwnJobs,
    ) -> None:
        self._partition, self._name_device = settings.partition, name_device
        self._every_s, self._jobs = settings.nodes_s, jobs
        self._commands = Commands(environment)
        self._lock = threading.Lock()
        self._nodes: tuple[LiveNode, ...] = ()
        self._left_alone: dict[str, tuple[float, str]] = {}
        self._read_s = float("-inf")
        self.addresses: dict[str, str] = {}

    @property
    def due(self) -> bool:
        """Whether they should be read again."""
        return time.monotonic() - self._read_s >= self._every_s

    def read(self) -> None:
        """Read the nodes; the last reading stays if slurmctld does not answer.

        Raises:
            DataAbsent: Slurm's commands are not installed.
            BadInput: there is no such partition, or no node in it.
        """
        self._read_s = time.monotonic()
        try:
            # Jobs of ours that begin or end meanwhile are in one of the two lists.
            ours = self._jobs.holding()
            nodes = read_nodes(self._commands.run("scontrol", ["-o", "-d", "show", "node"]))
            ours |= self._jobs.holding()
            self._check_partition()
        except Unavailable:
            return
        if self._partition:
            nodes = [node for node in nodes if self._partition in node.partitions]
        if not nodes:
            raise BadInput(f"no node in partition {self._partition!r}", "`sinfo` lists them")
        parts = parts_of(ours.values())
        live = tuple(self._live(node, parts.get(node.name, NOBODY)) for node in nodes)
        with self._lock:
            self.addresses = {node.name: node.address or node.name for node in nodes}
            self._nodes = tuple(sorted(live, key=_kind))

    def _check_partition(self) -> None:
        if not self._partition:
            return
        partitions = read_partitions(
            self._commands.run("scontrol", ["-o", "-a", "show", "partition"])
        )
        names = [partition.name for partition in partitions]
        if self._partition not in names:
            raise BadInput(
                f"there is no partition {self._partition!r}", f"use one of {', '.join(names)}"
            )

    def _live(self, node: SlurmNode, ours: Part) -> LiveNode:
        """Return a node; its GPUs have no names of their own here, since Slurm chooses them."""
        used = node.gpus_used, node.cpus_used, node.memory_used_mib
        gpus, cores, memory_mib = (
            max(0, all_ - part) for all_, part in zip(used, ours, strict=True)
        )
        if node.gpus:
            device, devices = self._name_device(node.gpu_type), node.gpus
            uuids = tuple(f"{node.name}:{index}" for index in range(node.gpus))
        else:
            each = -(-node.cpus // MAX_DEVICES_PER_NODE)
            device, devices, uuids = CORE, node.cpus // each, ()
            gpus = min(devices, -(-cores // each))
        why = "" if node.available else f"{node.state.lower()}: {node.reason}".rstrip(": ")
        return LiveNode(
            node.name, device, devices, node.cpus, node.memory_mib, uuids, not why,
            node.features, why, (gpus, cores, memory_mib),
        )  # fmt: skip

    def leave_alone(self, names: tuple[str, ...], why: str) -> None:
        """Take nodes as down for a while, as jobs do not begin there."""
        with self._lock:
            for name in names:
                self._left_alone[name] = time.monotonic() + PAUSE_S, why

    def latest(self) -> tuple[LiveNode, ...]:
        """Return the nodes as last read."""
        now_s = time.monotonic()
        with self._lock:
            self._left_alone = {
                name: entry for name, entry in self._left_alone.items() if entry[0] > now_s
            }
            if not self._left_alone:
                return self._nodes
            return tuple(
                node._replace(up=False, reason=self._left_alone[node.name][1])
                if node.up and node.name in self._left_alone
                else node
                for node in self._nodes
            )

    def by_name(self) -> dict[str, LiveNode]:
        """Return the nodes as last read, by name."""
        return {node.name: node for node in self._nodes}


def parts_of(jobs: Iterable[OwnJob]) -> dict[str, Part]:
    """Return what jobs have of each node; one on several nodes has equal parts, rounded up."""
    parts: dict[str, Part] = {}
    for job in jobs:
        names = expanded(job.node_list) if len(job.node_list) < COLUMNS["NodeList"] else []
        for name in names:
            gpus, cores, memory_mib = parts.get(name, NOBODY)
            count = len(names)
            parts[name] = (
                gpus - (-job.gpus // count),
                cores - (-job.cpus // count),
                memory_mib - (-job.memory_mib // count),
            )
    return parts


def _kind(node: LiveNode) -> tuple[object, ...]:
    """Return what like nodes have in common; those with GPUs come first."""
    return not node.uuids, node.device, -node.devices, node.cpus, node.memory_mib, node.features
