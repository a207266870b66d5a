"""Small twins, and when their jobs start and end."""

from __future__ import annotations

from typing import Any

from flyball.core import records as dtypes
from flyball.core.cluster import Cluster, NodeGroup
from flyball.core.effects import Effects
from flyball.core.knobs import Knobs
from flyball.core.records import records
from flyball.core.units import to_us
from flyball.core.workload import JobClass, Workload
from flyball.twin.twin import Twin

HOST_W, IDLE_W, BUSY_W, SLEEP_W = 71.0, 45.0, 261.0, 15.0
NODE_IDLE_W, NODE_BUSY_W = HOST_W + IDLE_W, HOST_W + BUSY_W
COMPUTE = int(JobClass.COMPUTE_INTENSIVE)


def group(nodes: int = 1, devices: int = 1, device: str = "V100") -> NodeGroup:
    return NodeGroup("n", nodes, device, devices)


def make(
    groups: list[NodeGroup],
    submit_s: list[float],
    duration_s: list[float],
    devices: Any = 1,
    *,
    knobs: Knobs | None = None,
    effects: Effects | None = None,
    budget_w: float = 0.0,
    outages: list[tuple[float, float, int]] | None = None,
    **columns: Any,
) -> Twin:
    """A twin of these jobs, all compute-intensive; `outages` are (down, up, node)."""
    workload = Workload.of("case", submit_s, duration_s, devices, **{"kind": COMPUTE, **columns})
    cluster = Cluster("case", tuple(groups), budget_w)
    twin = Twin(cluster, workload, knobs or Knobs(), effects)
    if outages:
        table = records(len(outages), dtypes.OUTAGE)
        for row, (down_s, up_s, node) in zip(table, outages, strict=True):
            row.down_us, row.up_us, row.node = to_us(down_s), to_us(up_s), node
        twin.state = twin.state._replace(outages=table)
    return twin


def run(*args: Any, **rest: Any) -> Twin:
    twin = make(*args, **rest)
    twin.run()
    assert twin.finished
    return twin


def starts(twin: Twin) -> list[float]:
    return (twin.state.runs.first_start_us / 1e6).tolist()  # type: ignore[no-any-return]


def ends(twin: Twin) -> list[float]:
    return (twin.state.runs.end_us / 1e6).tolist()  # type: ignore[no-any-return]
