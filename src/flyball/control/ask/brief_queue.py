"""The queue in short: a row of a few fields per active job, for pages that show thousands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flyball.control.jobs import holds
from flyball.core.jobs import Job
from flyball.core.live import LiveNode
from flyball.core.units import US_PER_S

COLUMNS = (
    "id", "label", "name", "state", "user", "tenant", "class", "cpus", "gpus", "priority",
    "submit_time", "start_time", "estimate_s", "reason", "held", "node",
)  # fmt: skip
MOST_NODES = 3
"""Names of nodes that are spelt out; of a larger gang the rest is counted."""


def brief_row(job: Job, token: str, nodes: Sequence[LiveNode]) -> list[Any]:
    """Return the fields of a job in the order of `COLUMNS`."""
    spec = job.spec
    return [
        job.id, job.label, spec.name, job.state.value, spec.user, spec.tenant, spec.kind, spec.cpus,
        spec.gpus, spec.priority, job.submit_us // US_PER_S,
        job.first_start_us // US_PER_S if job.first_start_us else None, spec.estimate_s,
        token, holds.is_held(job), _place(job, nodes),
    ]  # fmt: skip


def brief_queue(
    jobs: Sequence[Job], tokens: Mapping[int, str], nodes: Sequence[LiveNode]
) -> dict[str, Any]:
    """Return the queue as columns and rows, in the order of the jobs."""
    rows = [brief_row(job, tokens.get(job.id, ""), nodes) for job in jobs]
    return {"columns": COLUMNS, "rows": rows}


def _place(job: Job, nodes: Sequence[LiveNode]) -> str:
    names = [nodes[row.node].name for row in job.rows if row.node < len(nodes)]
    more = len(names) - MOST_NODES
    return ", ".join(names[:MOST_NODES]) + (f" and {more} more" if more > 0 else "")
