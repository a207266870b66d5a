"""`flyball policies`, `clusters` and `devices`: lists of names for other commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table

POLICIES_EXAMPLES = """\b
Examples:
  flyball policies
  flyball policies --knobs
"""
CLUSTERS_EXAMPLES = """\b
Examples:
  flyball clusters
  flyball clusters --json
\b
A cluster file is YAML:
  nodes:
    - {name: a, count: 8, device: V100, devices: 8, cpus: 64, memory_gib: 512}
  power_budget_kw: 20
  network: {between_nodes_gbit_s: 100, inside_node_gbit_s: 1200}
"""
DEVICES_EXAMPLES = """\b
Examples:
  flyball devices
  flyball devices --json
"""


def policies(
    knobs: Annotated[bool, typer.Option("--knobs", help="Describe each knob.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the policies and their knobs."""
    from flyball.schedule.policies.registry import loadable_policies

    listed = list(loadable_policies().values())
    if as_json:
        rows = [
            {"policy": policy.name, "summary": policy.summary, "knobs": policy.knobs.as_dict()}
            for policy in listed
        ]
        print_json({"policies": rows, "knobs": _knobs()})
    elif knobs:
        table = [
            (
                policy["name"],
                policy["unit"],
                _range(policy),
                str(policy["default"]),
                policy["meaning"],
            )
            for policy in _knobs()
        ]
        print_table("Knobs, for --set", ("knob", "unit", "range", "default", "meaning"), table, 5)
    else:
        cells = [(policy.name, policy.summary, _changed(policy.knobs)) for policy in listed]
        print_table("Policies", ("policy", "what it does", "knobs"), cells, 3)


def clusters(as_json: AsJson = False) -> None:
    """List the preset clusters, which can be named instead of a cluster file."""
    from flyball.twin.inputs.cluster_file import load_cluster, presets

    rows: list[dict[str, Any]] = []
    for name, content in presets().items():
        cluster = load_cluster(name)
        groups = [f"{g.count} x {g.devices} {g.device}" for g in cluster.groups]
        rows.append(
            {
                "cluster": name,
                "nodes": cluster.node_count,
                "devices": cluster.device_count,
                "groups": groups,
                "about": content["about"],
            }
        )
    if as_json:
        print_json({"clusters": rows})
        return
    cells = [
        (
            row["cluster"],
            row["about"],
            ", ".join(row["groups"]),
            f"{row['nodes']:,}",
            f"{row['devices']:,}",
        )
        for row in rows
    ]
    header = ("cluster", "what it is", "nodes x devices", "nodes", "devices")
    print_table("Clusters", header, cells, 3)


def devices(as_json: AsJson = False) -> None:
    """List the device types with their capability in V100s (ACU) and their power."""
    from flyball.core.workload import JobClass
    from flyball.physics import catalogue
    from flyball.physics.abstraction import acu

    types = list(catalogue.load().values())
    if as_json:
        rows = [
            {
                "device": device.name,
                "label": device.label,
                "kind": device.kind,
                "acu": acu(device),
                "acu_by_class": {kind.label: acu(device, kind) for kind in JobClass},
                "peak_tflops": dict(device.peak_tflops),
                "memory_gib": device.memory_gib,
                "bandwidth_gb_s": device.bandwidth_gb_s,
                "idle_w": device.idle_w,
                "peak_w": device.peak_w,
                "sources": dict(device.sources),
            }
            for device in types
        ]
        print_json({"devices": rows, "sources": dict(catalogue.sources())})
        return
    cells = [
        (
            device.name,
            device.label,
            device.kind,
            f"{acu(device):.2f}",
            *(f"{acu(device, kind):.2f}" for kind in JobClass),
            f"{device.memory_gib:g}",
            f"{device.bandwidth_gb_s:g}",
            f"{device.idle_w:g}",
            f"{device.peak_w:g}",
        )
        for device in types
    ]
    classes = tuple(kind.label.split("-")[0] for kind in JobClass)
    header = ("device", "what it is", "kind", "ACU", *classes, "GiB", "GB/s", "idle W", "peak W")
    print_table(
        "Device types; ACU = speed in V100s, overall and by workload class", header, cells, 3
    )


def _knobs() -> list[dict[str, Any]]:
    from dataclasses import fields

    from flyball.core.knobs import Knobs

    defaults = Knobs().as_dict()
    return [
        {"name": knob.name, "default": defaults[knob.name], **knob.metadata}
        for knob in fields(Knobs)
    ]


def _range(knob: dict[str, Any]) -> str:
    return "" if "|" in knob["unit"] else f"{knob['low']:g} .. {knob['high']:g}"


def _changed(knobs: Any) -> str:
    """Return the knobs that a policy sets differently from the default."""
    return ", ".join(f"{name}={value}" for name, value in knobs.changed().items())
