"""`flyball nodes`: lists the nodes, and the jobs on each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from flyball.cli.formats import clean, count_text, size_text
from flyball.cli.live import State, connected, unit_of
from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table

EXAMPLES = """\b
Examples:
  flyball nodes
  flyball nodes --json
"""

COLUMNS = ("node", "state", "device", "jobs", "used", "devices", "cores", "memory")
SHOWN = 12
"""Maximum number of jobs listed per node."""

Node = Mapping[str, Any]


def nodes(
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """List the nodes: what each has, what is used, and by which jobs."""
    with connected(state) as client:
        rows = client.nodes()
        signals = {} if as_json else client.signals()
    if as_json:
        print_json(rows)
        return
    print_table("", COLUMNS, [cells(node) for node in rows], 4)
    used, total = (sum(int(node[field]) for node in rows) for field in ("used", "devices"))
    typer.echo(f"{used:,} of {total:,} {unit_of(rows)}s in use.")
    for node in rows:
        if node["reason"]:
            typer.echo(f"{clean(node['name'])} is {clean(node['state'])}: {clean(node['reason'])}")
        if any((others := node.get("others", {})).values()):
            typer.echo(f"{clean(node['name'])}: {others_text(others, unit_of([node]))}")
    if line := signals_text(signals):
        typer.echo(line)


def others_text(others: Mapping[str, int], unit: str) -> str:
    """Return what jobs that are not ours have of a node."""
    devices, cores = others["devices"], others["cpus"]
    parts = [count_text(devices, unit)] if devices and unit != "core" else []
    parts += [count_text(cores, "core")] if cores else []
    parts += [f"{size_text(others['memory_mib'])} of memory"] if others["memory_mib"] else []
    return f"jobs of others have {', '.join(parts)}"


def signals_text(signals: Mapping[str, Any]) -> str:
    """Return the present price and carbon intensity in a line, empty if there are none."""
    parts = []
    if signals.get("price_per_kwh") is not None:
        unit = clean(signals.get("currency") or "")
        parts.append(f"{signals['price_per_kwh']:.4g} {unit}/kWh")
    if signals.get("carbon_g_per_kwh") is not None:
        parts.append(f"{signals['carbon_g_per_kwh']:.4g} g CO2/kWh")
    return f"Now {' and '.join(parts)}." if parts else ""


def cells(node: Node) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
    jobs = list(dict.fromkeys(node["jobs"]))
    more = f" and {len(jobs) - SHOWN} more" if len(jobs) > SHOWN else ""
    return (
        clean(node["name"]),
        clean(node["state"]),
        clean(node["device"]),
        ", ".join(map(str, jobs[:SHOWN])) + more,
        str(node["used"]),
        str(node["devices"]),
        str(node["cpus"]),
        size_text(node["memory_mib"]),
    )
