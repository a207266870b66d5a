"""Writes an adviser's results for others: JSON, metrics, and the site as a cluster file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

import yaml

from flyball.control.jobs.node_choice import CORE
from flyball.control.jobs.request import cores_per_device
from flyball.core.cluster import MAX_DEVICES_PER_NODE
from flyball.core.errors import BadInput
from flyball.core.units import MIB_PER_GIB
from flyball.engines.slurm.records_text import SlurmNode
from flyball.twin.inputs.cluster_file import parse_cluster
from flyball.twin.inputs.traces.gpus import device_of
from flyball.watch.adviser import Advice
from flyball.watch.why import start_as_json

MetricRow = tuple[str, dict[str, str], float]
LIKE = "V100"
"""Type of the catalogue that stands in for one it does not have."""


def as_json(advice: Advice) -> dict[str, Any]:
    """Return the advice as JSON values."""
    reading = advice.reading
    p50, p90 = (None if math.isnan(part) else part for part in advice.coverage)
    return {
        "time": reading.time_s,
        "cluster": reading.settings.get("clustername", ""),
        "slurm_version": reading.settings.get("slurm_version", ""),
        "poll_s": reading.took_s,
        "nodes": len(reading.nodes),
        "nodes_available": sum(node.available for node in reading.nodes),
        "running": advice.running,
        "pending": [start_as_json(start) for start in advice.starts],
        "coverage": {"p50": p50, "p90": p90},
        "learnt": advice.learnt,
        "rules": list(advice.rules.sentences),
        "notes": advice.notes,
    }


def metric_rows(advice: Advice | None, polls: int, failures: int) -> list[MetricRow]:
    """Return the figures that Prometheus reads."""
    rows: list[MetricRow] = [
        ("flyball_slurm_polls_total", {}, float(polls)),
        ("flyball_slurm_poll_failures_total", {}, float(failures)),
    ]
    if advice is None:
        return rows
    reading = advice.reading
    rows += [
        ("flyball_slurm_poll_seconds", {}, reading.took_s),
        ("flyball_slurm_reading_time_seconds", {}, reading.time_s),
        ("flyball_slurm_nodes", {}, float(len(reading.nodes))),
        ("flyball_slurm_nodes_available", {}, float(sum(n.available for n in reading.nodes))),
        ("flyball_slurm_jobs_running", {}, float(advice.running)),
        ("flyball_slurm_run_times_learnt", {}, float(advice.learnt)),
    ]
    for level, part in zip(("0.5", "0.9"), advice.coverage, strict=True):
        if not math.isnan(part):
            rows.append(("flyball_slurm_start_coverage", {"quantile": level}, part))
    by_partition: dict[str, list[tuple[float, float]]] = {}
    pending = Counter(",".join(start.job.partitions) for start in advice.starts)
    for start in advice.starts:
        if start.forecast is not None:
            waits = by_partition.setdefault(",".join(start.job.partitions), [])
            waits.append((start.forecast.p50_s, start.forecast.p90_s))
    for partition, count in sorted(pending.items()):
        rows.append(("flyball_slurm_jobs_pending", {"partition": partition}, float(count)))
    for partition, waits in sorted(by_partition.items()):
        for level, at in (("0.5", 0), ("0.9", 1)):
            labels = {"partition": partition, "quantile": level}
            middle = median(wait[at] for wait in waits)
            rows.append(("flyball_slurm_median_start_seconds", labels, middle))
    return rows


def cluster_text(name: str, nodes: Sequence[SlurmNode]) -> str:
    """Return a cluster file of the site, for `flyball replay` of its accounts.

    On a site with GPUs nodes without any are left out, as are jobs without any in its accounts.

    Raises:
        BadInput: the site cannot be described, e.g. with too many kinds of nodes.
    """
    with_gpus = [node for node in nodes if node.gpus]
    kinds: Counter[tuple[str, int, int, int]] = Counter()
    types: dict[str, dict[str, str]] = {}
    for node in with_gpus or nodes:
        device, devices = _device(node)
        if device not in ("", CORE) and not device_of(device):
            types[device] = {"like": LIKE}
        kinds[device, devices, node.cpus, node.memory_mib] += 1
    content: dict[str, Any] = {"name": name or "slurm", "nodes": []}
    if types:
        content["types"] = types
    for at, ((device, devices, cpus, memory_mib), count) in enumerate(sorted(kinds.items())):
        content["nodes"].append(
            {"name": f"g{at}-", "count": count, "device": device, "devices": devices,
             "cpus": cpus, "memory_gib": round(memory_mib / MIB_PER_GIB, 3)}
        )  # fmt: skip
    parse_cluster(content, "the site's cluster file")
    head = "# Written by `flyball watch slurm --write-cluster`.\n"
    if types:
        head += f"# Types that the catalogue lacks are taken as {LIKE}: correct `types`.\n"
    if with_gpus and len(with_gpus) < len(nodes):
        head += f"# {len(nodes) - len(with_gpus)} nodes without GPUs are left out.\n"
    return head + str(yaml.safe_dump(content, sort_keys=False, default_flow_style=None))


def _device(node: SlurmNode) -> tuple[str, int]:
    """Return the type of a node's devices and their number."""
    if not node.gpus:
        return CORE, max(1, node.cpus // cores_per_device(node.cpus))
    if node.gpus > MAX_DEVICES_PER_NODE:
        raise BadInput(
            f"node {node.name} has {node.gpus} GPUs", f"we handle {MAX_DEVICES_PER_NODE} per node"
        )
    return device_of(node.gpu_type) or node.gpu_type or LIKE, node.gpus
