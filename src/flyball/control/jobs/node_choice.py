"""The nodes that a job may run on: by their number, their type of device, their features."""

from __future__ import annotations

from collections.abc import Sequence

from flyball.core.errors import BadInput
from flyball.core.jobs import JobSpec
from flyball.core.live import LiveNode
from flyball.twin.inputs.traces.gpus import device_of

CORE = "CPU1"
"""The device type that is one core."""
ANY = 0
"""Mask of a job that may run anywhere."""
MAX_CACHED = 10_000
"""Maximum number of choices that are remembered: users may send any names."""


def pools_of(nodes: Sequence[LiveNode]) -> list[list[LiveNode]]:
    """Return runs of like nodes, in order: the pools of the cluster that decisions see."""
    pools: list[list[LiveNode]] = []
    for node in nodes:
        if pools and _kind(pools[-1][0]) == _kind(node):
            pools[-1].append(node)
        else:
            pools.append([node])
    return pools


def _kind(node: LiveNode) -> tuple[object, ...]:
    return node.device, node.devices, node.cpus, node.memory_mib, node.features


class NodeChoice:
    """Finds the nodes of one cluster that a job may run on."""

    def __init__(self, nodes: Sequence[LiveNode]) -> None:
        self._count = len(nodes)
        self._pools = [pool[0] for pool in pools_of(nodes)]
        self.all = (1 << len(self._pools)) - 1
        """Every pool, a bit each."""
        self.without_devices = sum(
            1 << at for at, node in enumerate(self._pools) if node.device == CORE
        )
        """The pools of nodes that have cores only, a bit each."""
        self._masks: dict[tuple[str, tuple[str, ...]], int] = {}

    def pools(self, spec: JobSpec) -> int:
        """Return the pools it may run on, a bit each; `ANY` if it states neither type nor features,
        or if no node has them: `check` refuses such a job."""
        if not spec.device_type and not spec.features:
            return ANY
        key = (spec.device_type, spec.features)
        mask = self._masks.get(key)
        if mask is None:
            if len(self._masks) > MAX_CACHED:
                self._masks.clear()
            mask = self._masks[key] = sum(
                1 << at for at, node in enumerate(self._pools) if _has(node, *key)
            )
        return mask

    def check(self, spec: JobSpec) -> None:
        """Refuse a job that no nodes here could ever serve.

        Raises:
            BadInput: too many nodes, or a type or a feature that no node has.
        """
        if spec.nodes > self._count:
            there = f"there are only {self._count}" if self._count > 1 else "there is only one node"
            raise BadInput(f"{spec.nodes} nodes requested, and {there}", f"use -N {self._count}")
        if (spec.device_type or spec.features) and self.pools(spec) == ANY:
            raise self._missing(spec)

    def _missing(self, spec: JobSpec) -> BadInput:
        """Return the error that names what no node has, and what there is."""
        types = list(dict.fromkeys(node.device for node in self._pools))
        if not any(_has(node, spec.device_type, ()) for node in self._pools):
            return BadInput(
                f"no node has devices of type {spec.device_type!r}",
                f"leave the type out, or use {' or '.join(types)}",
            )
        features = sorted({name for node in self._pools for name in node.features})
        if missing := [name for name in spec.features if name not in features]:
            there = f"nodes have {', '.join(features)}" if features else "no node declares any"
            return BadInput(
                f"no node has the feature {missing[0]!r}",
                f"leave out --constraint; {there} (`flyball up --features`)",
            )
        return BadInput(
            "no node has all of the features and the type of device requested",
            "`flyball nodes` lists what each has",
        )


def _has(node: LiveNode, device_type: str, features: Sequence[str]) -> bool:
    """Whether a node has this type of device ("" = any) and these features."""
    same = device_type.casefold() == node.device.casefold() or device_of(device_type) == node.device
    return (not device_type or same) and set(features) <= set(node.features)
