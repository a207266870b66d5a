"""`flyball policies`, `clusters` and `devices`: what there is to name in other commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.output import print_json, print_table

JsonOption = Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")]

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
    knobs: Annotated[bool, typer.Option("--knobs", help="Say what each knob means.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List the policies and their knobs."""
    from flyball.schedule.policies.registry import loadable_policies

    listed = list(loadable_policies().values())
    if as_json:
        rows = [
            {"policy": each.name, "summary": each.summary, "knobs": each.knobs.as_dict()}
            for each in listed
        ]
        print_json({"policies": rows, "knobs": _knobs()})
    elif knobs:
        table = [
            (each["name"], each["unit"], _range(each), str(each["default"]), each["meaning"])
            for each in _knobs()
        ]
        print_table("Knobs, for --set", ("knob", "unit", "range", "default", "meaning"), table, 5)
    else:
        cells = [(each.name, each.summary, _changed(each.knobs)) for each in listed]
        print_table("Policies", ("policy", "what it does", "knobs"), cells, 3)


def clusters(as_json: JsonOption = False) -> None:
    """List the clusters that can be named instead of a file."""
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
            each["cluster"],
            each["about"],
            ", ".join(each["groups"]),
            f"{each['nodes']:,}",
            f"{each['devices']:,}",
        )
        for each in rows
    ]
    header = ("cluster", "what it is", "nodes x devices", "nodes", "devices")
    print_table("Clusters", header, cells, 3)


def devices(as_json: JsonOption = False) -> None:
    """List the device types with their capability in V100s (ACU) and their power."""
    from flyball.core.workload import JobClass
    from flyball.physics import catalogue
    from flyball.physics.abstraction import acu

    types = list(catalogue.load().values())
    if as_json:
        rows = [
            {
                "device": each.name,
                "label": each.label,
                "kind": each.kind,
                "acu": acu(each),
                "acu_by_class": {kind.label: acu(each, kind) for kind in JobClass},
                "peak_tflops": dict(each.peak_tflops),
                "memory_gib": each.memory_gib,
                "bandwidth_gb_s": each.bandwidth_gb_s,
                "idle_w": each.idle_w,
                "peak_w": each.peak_w,
                "sources": dict(each.sources),
            }
            for each in types
        ]
        print_json({"devices": rows, "sources": dict(catalogue.sources())})
        return
    cells = [
        (
            each.name,
            each.label,
            each.kind,
            f"{acu(each):.2f}",
            *(f"{acu(each, kind):.2f}" for kind in JobClass),
            f"{each.memory_gib:g}",
            f"{each.bandwidth_gb_s:g}",
            f"{each.idle_w:g}",
            f"{each.peak_w:g}",
        )
        for each in types
    ]
    classes = tuple(kind.label.split("-")[0] for kind in JobClass)
    header = ("device", "what it is", "kind", "ACU", *classes, "GiB", "GB/s", "idle W", "peak W")
    print_table("Device types; ACU = its speed in V100s, in all and by class", header, cells, 3)


def _knobs() -> list[dict[str, Any]]:
    from dataclasses import fields

    from flyball.core.knobs import Knobs

    defaults = Knobs().as_dict()
    return [
        {"name": each.name, "default": defaults[each.name], **each.metadata}
        for each in fields(Knobs)
    ]


def _range(knob: dict[str, Any]) -> str:
    return "" if "|" in knob["unit"] else f"{knob['low']:g} .. {knob['high']:g}"


def _changed(knobs: Any) -> str:
    """The knobs a policy sets differently from the default."""
    from flyball.core.knobs import Knobs

    plain = Knobs().as_dict()
    own = knobs.as_dict()
    return ", ".join(f"{name}={value}" for name, value in own.items() if value != plain[name])
