"""A cluster from a list of its nodes: CSV with a row per node, as in Alibaba's trace of 2023.

Columns: `sn` or `node`, `cpu_milli`, `memory_mib`, `gpu` or `num_gpus`, `model` or `gpu_model`.
Nodes that are alike become a group, in the order in which the first of each kind appears. Nodes
without devices are left out: every node of a cluster has devices here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from flyball.core.cluster import MAX_DEVICES_PER_NODE, MAX_POOLS, Cluster, NodeGroup
from flyball.core.errors import BadInput, UnknownName, at
from flyball.core.units import MIB_PER_GIB, MILLI_PER_CORE
from flyball.physics import catalogue
from flyball.twin.inputs.traces.table import Field, read_header, read_table

NAMES = {"sn": ("sn", "node"), "gpu": ("gpu", "num_gpus"), "model": ("model", "gpu_model")}
"""Columns that have two names, with both."""

DEVICES = {"V100M16": "V100", "V100M32": "V100-32GB", "G2": "A10", "G3": "A100"}
"""Models of the trace that the catalogue has under another name, and that name.

G2 and G3 are anonymised; what stands in for them is an assumption from the size of their
nodes (8 devices with 96 cores and 384 GiB, and with 128 cores and 768 GiB). It sets speed and
power, and does not affect whether a job fits.
"""


def is_node_list(path: Path) -> bool:
    """Return whether the file name is that of a table."""
    return path.name.lower().endswith((".csv", ".csv.gz"))


def read_nodes(path: Path, notes: list[str] | None = None) -> Cluster:
    """Read the cluster of a node list, plain or gzipped.

    Args:
        path: the file.
        notes: receives a sentence on what was left out.

    Raises:
        BadInput: the file is not valid or names an unknown model; gives the row.
    """
    column_of = _columns(path)
    table = read_table(path, _fields(column_of))
    columns = table.columns
    kinds: Counter[tuple[int, int, int, str]] = Counter()
    for index in range(len(table)):
        devices = int(columns[column_of["gpu"]][index])
        if devices == 0:
            continue
        code = int(columns[column_of["model"]][index])
        model = table.names[column_of["model"]][code] if code >= 0 else ""
        _device(model, path, int(table.rows[index]))
        kinds[
            int(columns["cpu_milli"][index]), int(columns["memory_mib"][index]), devices, model
        ] += 1
    without_devices = len(table) - kinds.total()
    if not kinds:
        raise BadInput(f"{path} has no node with devices", "name a list with some")
    if len(kinds) > MAX_POOLS:
        raise BadInput(f"{path} has {len(kinds)} kinds of nodes", f"use at most {MAX_POOLS}")
    if without_devices and notes is not None:
        notes.append(f"{without_devices:,} nodes have no devices: left out")
    groups = [_group(kind, count) for kind, count in kinds.items()]
    return Cluster(path.name.split(".")[0], _with_unique_names(groups))


def _columns(path: Path) -> dict[str, str]:
    """Return what the columns with two names are called in this file."""
    names = read_header(path)
    return {
        key: next((name for name in choices if name in names), choices[0])
        for key, choices in NAMES.items()
    }


def _fields(columns: dict[str, str]) -> tuple[Field, ...]:
    return (
        Field(columns["sn"], "text", required=True),
        Field("cpu_milli", "whole", required=True, low=1, high=1e8, remedy="thousandths of cores"),
        Field("memory_mib", "whole", required=True, low=1, high=2**30, remedy="MiB of memory"),
        Field(
            columns["gpu"],
            "whole",
            required=True,
            high=MAX_DEVICES_PER_NODE,
            remedy=f"devices of the node, 0 to {MAX_DEVICES_PER_NODE}",
        ),
        Field(columns["model"], "name"),
    )


def _device(model: str, path: Path, row: int) -> str:
    """Return the catalogue's name of a model."""
    try:
        return catalogue.get(DEVICES.get(model, model)).name
    except UnknownName as unknown:
        raise BadInput(f"{at(path, row)}: {unknown}") from None


def _group(kind: tuple[int, int, int, str], count: int) -> NodeGroup:
    cpu_milli, memory_mib, devices, model = kind
    cores, memory_gib = cpu_milli // MILLI_PER_CORE, memory_mib / MIB_PER_GIB
    return NodeGroup(
        name=f"{model.lower()}-{devices}x{cores}c{memory_gib:g}g-",
        count=count,
        device=catalogue.get(DEVICES.get(model, model)).name,
        devices=devices,
        cpus=cores,
        memory_gib=memory_gib,
    )


def _with_unique_names(groups: list[NodeGroup]) -> tuple[NodeGroup, ...]:
    """Append a number to the names of groups that differ only in a fraction of a core."""
    counts = Counter(group.name for group in groups)
    return tuple(
        replace(group, name=f"{group.name}{index}-") if counts[group.name] > 1 else group
        for index, group in enumerate(groups)
    )
