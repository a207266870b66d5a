"""Translates a job's request into the devices of this cluster.

Cores are the devices of a cluster without accelerators; elsewhere accelerators are, and cores
and memory are demands on the host. In a cluster of both kinds of nodes, jobs for GPUs go to nodes
that have them, and jobs for cores to any.
"""

from __future__ import annotations

import hashlib
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from flyball.control.jobs.job_class import JobClasses
from flyball.control.jobs.node_choice import CORE, NodeChoice, pools_of
from flyball.core.cluster import MAX_DEVICES_PER_NODE, Cluster, NodeGroup
from flyball.core.errors import BadInput, Conflict, UnknownName
from flyball.core.events import Opened
from flyball.core.job_fields import FIELDS, MAX_DEVICES
from flyball.core.job_fields.forms import Number, Whole
from flyball.core.jobs import JobSpec, JobState, SpecValues
from flyball.core.live import LiveNode
from flyball.core.units import MIB_PER_GIB, MILLI_PER_CORE, MILLI_PER_DEVICE, S_PER_HOUR, to_us
from flyball.core.workload import CLASS_LABELS
from flyball.physics import catalogue, measured
from flyball.physics.goodput import growth, stated_part
from flyball.tune.pathway_scope import Scope, scope_of

MAX_MODELS = 4096
"""Maximum number of model names whose properties are cached: users may send any name."""
CHECKED_APART = ("least", "most", "nodes")
"""Fields that are checked against the request and the number of nodes."""
LIMITS = {
    row.name: (row.form.low, row.form.high)
    for row in FIELDS.values()
    if row.scheduled and isinstance(row.form, Whole | Number) and row.name not in CHECKED_APART
}
"""Allowed range of each value: beyond it a job could not be stored and decisions would fail."""
_limited_values = operator.attrgetter(*LIMITS)


class DeviceRequest(NamedTuple):
    """Holds a request in the scheduler's units, as in `core.workload.Workload`."""

    devices: int
    milli: int
    cpu_milli: int
    host_mib: int


class Demand:
    """Translates requests for one cluster.

    Attributes:
        device: the type that estimates refer to.
        choice: finds the nodes that a job may run on.
        classes: gives jobs their class, and what belongs to it.
        default_us: the run time assumed for a job that states none.
    """

    def __init__(
        self, nodes: Sequence[LiveNode], pathways: Scope = Scope.OFF, apart: bool = True
    ) -> None:
        """
        Args:
            pathways: how far class pathways are followed.
            apart: jobs for GPUs use no node of cores only; an earlier version let them.
        """
        self._apart = apart
        self.by_cores = all(node.device == CORE for node in nodes)
        self.classes = JobClasses(pathways, self.by_cores)
        self.default_us = float(to_us(S_PER_HOUR))
        self.adopt(nodes)

    def adopt(self, nodes: Sequence[LiveNode]) -> None:
        """Take other nodes; whether cores are the devices stays as it is (`roster`)."""
        self.cores_each = max(cores_per_device(node.cpus) for node in nodes)
        self.device = nodes[0].device
        self.choice = NodeChoice(nodes)
        counted = nodes
        if self._apart and not self.by_cores:
            counted = [node for node in nodes if node.device != CORE]
            self.device = counted[0].device
        sizes = [node.cpus if self.by_cores else node.devices for node in counted]
        self._largest, self._total = max(sizes), sum(sizes)

    def pools(self, spec: JobSpec) -> int:
        """Return the pools that a job may run on, a bit each; 0 = any."""
        pools = self.choice.pools(spec)
        if not self._apart or self.by_cores or not spec.gpus or not self.choice.without_devices:
            return pools
        return (pools or self.choice.all) & ~self.choice.without_devices

    def of(self, spec: JobSpec) -> DeviceRequest:
        """Return what a job asks for on this cluster."""
        if self.by_cores:
            return DeviceRequest(
                -(-spec.cpus // self.cores_each), MILLI_PER_DEVICE, 0, spec.memory_mib
            )
        milli = spec.milli if spec.gpus else MILLI_PER_DEVICE
        return DeviceRequest(spec.gpus, milli, spec.cpus * MILLI_PER_CORE, spec.memory_mib)

    def range_of(self, spec: JobSpec) -> tuple[int, int]:
        """Return the least and most devices it can run with, both 0 if it is rigid."""
        cores = self.cores_each if self.by_cores else 1
        return -(-spec.least // cores), spec.most // cores

    def check(self, spec: JobSpec) -> None:
        """Raise BadInput for a request that is invalid here, whatever the size of the nodes."""
        if spec.kind and spec.kind not in CLASS_LABELS:
            raise UnknownName("workload class", spec.kind, CLASS_LABELS)
        for (name, (low, high)), value in zip(LIMITS.items(), _limited_values(spec), strict=True):
            if not low <= value <= high:  # NaN fails as well
                raise BadInput(f"{name} is {value}", f"use {FIELDS[name].rule}")
        if self.by_cores and spec.gpus:
            raise BadInput(
                f"{spec.gpus} GPUs requested, but no node has one",
                "leave out --gpus; request cores with -c",
            )
        self.choice.check(spec)
        if self._apart and spec.gpus and self.choice.without_devices and not self.pools(spec):
            raise BadInput(
                f"{spec.gpus} GPUs requested of nodes that have cores only",
                "leave out --gpus, or name another type or feature",
            )
        stated_part(spec.model)  # raises if the stated part is not valid
        if spec.least or spec.most:
            self._check_range(spec)

    def _check_range(self, spec: JobSpec) -> None:
        asked = self.of(spec).devices
        least, most = self.range_of(spec)
        if not asked or spec.milli < MILLI_PER_DEVICE:
            raise BadInput("only whole GPUs or cores can change in number", "leave out --elastic")
        if not 1 <= least <= asked <= most <= MAX_DEVICES:
            raise BadInput(
                f"elastic from {spec.least} to {spec.most}, but requests {asked}",
                "the request must lie between the two",
            )

    def check_growth(self, spec: JobSpec) -> None:
        """Refuse a new elastic job whose maximum exceeds what the cluster has.

        This is not part of `check`: a job that was accepted on larger nodes still runs on these.

        Raises:
            BadInput: with the numbers and the range that would be accepted.
        """
        if spec.most <= self._total:
            return
        what = "cores" if self.by_cores else "GPUs"
        largest = f"the largest node has {self._largest}"
        if self._total > self._largest:
            largest += f", all together {self._total}"
        raise BadInput(
            f"elastic from {spec.least} to {spec.most} {what}, and {largest}",
            f"use --elastic {min(spec.least, self._total)}-{self._total}",
        )

    def known_model(self, name: str) -> str:
        """Return the name if the speeds of that model are known, else ""."""
        return name if name and _is_known(name) else ""

    def grows(self, name: str) -> bool:
        """Whether a model's speed on other numbers of these devices was published."""
        return bool(name) and _grows(name, self.device)


@lru_cache(MAX_MODELS)
def _is_known(model: str) -> bool:
    try:
        return measured.model_key(model) is not None
    except BadInput:
        return False


@lru_cache(MAX_MODELS)
def _grows(model: str, device: str) -> bool:
    if stated_part(model) is not None:
        return False
    try:
        speeds = growth(model, adaptive=False)
    except BadInput:
        return False
    return speeds is not None and speeds.per_s(device, 1, across=False) is not None


def cores_per_device(cores: int) -> int:
    """Return how many cores make one device, so that a node's devices fit into a mask."""
    return -(-cores // MAX_DEVICES_PER_NODE)


def nodes_of(opened: Opened) -> list[LiveNode]:
    """Return the nodes of a control plane, from its `opened` event.

    Raises:
        BadInput: the event is damaged.
    """
    try:
        return [_node_of(node) for node in opened.nodes]
    except (KeyError, TypeError, AttributeError) as error:
        why = f"the journal is damaged (nodes of an `opened` event: {error})"
        raise BadInput(why, "restore a backup: `flyball restore FILE`") from error


def scope_in(opened: Opened) -> Scope:
    """Return how far a control plane follows class pathways; older ones did not."""
    return scope_of(opened.pathways) if opened.pathways else Scope.OFF


def demand_in(opened: Opened) -> Demand:
    """Return the translation of requests that a control plane uses.

    Raises:
        BadInput: the event is damaged.
    """
    return Demand(nodes_of(opened), scope_in(opened), bool(opened.apart))


def resizes_in(opened: Opened) -> bool:
    """Return whether a control plane's engine can resize jobs in place; older ones always could."""
    return opened.can is None or "resize" in opened.can


def _node_of(record: Mapping[str, Any]) -> LiveNode:
    """Return a node from its record; fields of a newer version are left out."""
    fields: dict[str, Any] = {name: record[name] for name in LiveNode._fields if name in record}
    fields["uuids"] = tuple(record["uuids"])
    fields["features"] = tuple(record.get("features", ()))  # older versions had none
    for name in ("reason", "others"):  # its state is in other events
        fields.pop(name, None)
    return LiveNode(**fields)


def cluster_of(nodes: Sequence[LiveNode], name: str, budget_w: float = 0.0) -> Cluster:
    """Return the cluster of these nodes, with a group for each run of like nodes, in order."""
    groups = []
    for pool in pools_of(nodes):
        node = pool[0]
        catalogue.get(node.device)
        size = (node.device, node.devices, node.cpus, node.memory_mib / MIB_PER_GIB)
        groups.append(NodeGroup(node.name, len(pool), *size))
    return Cluster(name, tuple(groups), power_budget_w=budget_w)


# Requests, before they become jobs ---------------------------------------------------


def can_hold(how: str, ended: JobState | None) -> bool:
    """Whether a dependency on a job is satisfied, or still can be."""
    if ended is None or how == "afterany":
        return True
    return (ended == JobState.COMPLETED) == (how == "afterok")


def earlier_ids(answer: Mapping[str, Any], key: str, print_: str) -> list[int]:
    """Return the ids that were assigned under this key before.

    Raises:
        Conflict: the key was used for other jobs.
    """
    if answer["print"] != print_:
        raise Conflict(f"key {key!r} was used for other jobs", "use a new key")
    return list(range(int(answer["first"]), int(answer["first"]) + int(answer["count"])))


def numbered(specs: Sequence[JobSpec], first: int) -> list[JobSpec]:
    """Return the specs with array ids, names and output paths filled in.

    Neighbours with rising index form one array.
    """
    specs_out: list[JobSpec] = []
    array = 0
    for at, spec in enumerate(specs):
        if spec.array_index < 0:
            array = 0
        elif not array or spec.array_index <= specs[at - 1].array_index:
            array = first + at
        if array or spec.array or spec.stdout or spec.stderr or not spec.name:
            stdout = filled(spec, spec.stdout, first + at, array)
            stderr = filled(spec, spec.stderr, first + at, array)
            name = spec.name or program_name(spec.argv)
            spec = replace(spec, array=array, name=name, stdout=stdout, stderr=stderr)
        specs_out.append(spec)
    return specs_out


def program_name(argv: Sequence[str]) -> str:
    """Return the name of a job that states none."""
    return argv[0].rstrip("/").rpartition("/")[2]


def filled(spec: JobSpec, path: str, job: int, array: int) -> str:
    """Expand Slurm's patterns in a path: %j job, %A array, %a task, %x name, %u user.

    `%4a` is task 7 as `0007`.
    """
    if "%" not in path:
        return path
    values: dict[str, Any] = {"%": "%", "j": job, "A": array or job, "a": max(0, spec.array_index)}
    values["x"] = (spec.name or program_name(spec.argv)).replace("/", "_")
    values["u"] = spec.user.replace("/", "_")

    def expand(match: re.Match[str]) -> str:
        value = values[match[2]]
        return f"{value:0{match[1] or 1}}" if isinstance(value, int) else str(value)

    return re.sub("%([0-9]?)([%jAaxu])", expand, path)


def fingerprint(specs: Sequence[SpecValues]) -> str:
    """Return a hash that is equal for equal requests."""
    return hashlib.sha256("\n".join([spec.text() for spec in specs]).encode()).hexdigest()
