"""Jobs and nodes as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flyball.control.jobs import holds
from flyball.control.jobs.adjustments import tuning_of
from flyball.core.events import NodeChanged
from flyball.core.jobs import Job
from flyball.core.live import NOBODY, LiveNode
from flyball.core.units import US_PER_S
from flyball.physics.catalogue import CORE, DEVICE


def job_view(job: Job, nodes: Sequence[LiveNode], how: str = "") -> dict[str, Any]:
    """Return the public form of a job: Slurm's state names, times in seconds since 1970 or None.

    Args:
        how: the means by which its cap is enforced.
    """
    spec = job.spec
    return {
        **heading(job, nodes),
        "reason": job.reason,
        "attempts": job.attempt,
        "preemptions": job.preemptions,
        "exit_code": job.values.get("exit_code"),
        "signal": job.values.get("signal") or None,
        "user": spec.user,
        "tenant": spec.tenant,
        "cpus": spec.cpus,
        "gpus": spec.gpus,
        "memory_mib": spec.memory_mib,
        "priority": spec.priority,
        "node": ",".join(nodes[row.node].name for row in job.rows) or None,
        "array_id": spec.array or None,
        "elastic": [spec.least, spec.most] if spec.elastic else None,
        "tuning": tuning_of(job, how),
        "held": holds.view(job),
        "spec": spec.as_dict(),
    }


def heading(job: Job, nodes: Sequence[LiveNode]) -> dict[str, Any]:
    """Return what every answer about a job begins with: which job, its state, times and unit."""
    return {
        "id": job.id,
        "label": job.label,
        "name": job.spec.name,
        "state": job.state.value,
        "submit_time": _seconds(job.submit_us),
        "start_time": _seconds(job.first_start_us),
        "end_time": _seconds(job.end_us),
        "unit": unit_of_job(job, nodes),
    }


def unit_of_job(job: Job, nodes: Sequence[LiveNode]) -> str:
    """Return the unit of a job's devices: `core` or `GPU`; `device` where one is several cores."""
    if job.spec.gpus or nodes[0].device != CORE:
        return "GPU"
    return "core" if nodes[0].devices == nodes[0].cpus else DEVICE


def _seconds(time_us: int) -> float | None:
    return time_us / US_PER_S if time_us else None


NOBODYS: Mapping[int, tuple[int, int, int]] = {}
OTHERS = ("devices", "cpus", "memory_mib")


def node_views(
    nodes: Sequence[LiveNode],
    running: Sequence[Job],
    notes: Mapping[int, NodeChanged],
    others: Mapping[int, tuple[int, int, int]] = NOBODYS,
) -> list[dict[str, Any]]:
    """Return every node with its devices and the jobs that hold them.

    Args:
        notes: the last event of each node that takes no new jobs.
        others: devices, cores and MiB that jobs which are not ours have of nodes.
    """
    held: list[list[list[int]]] = [[[] for _ in range(node.devices)] for node in nodes]
    jobs: list[list[int]] = [[] for _ in nodes]
    for job in running:
        for row in job.rows:
            if row.node >= len(nodes):
                continue  # the control plane was restarted with fewer nodes
            jobs[row.node].append(job.id)
            for device, holders in enumerate(held[row.node]):
                if row.mask >> device & 1:
                    holders.append(job.id)
    return [
        {
            "name": node.name,
            "up": at not in notes,
            "state": (notes[at].state or "down") if at in notes else "up",
            "reason": (notes[at].reason if at in notes else None) or "",
            "device": node.device,
            "devices": node.devices,
            "used": sum(bool(holders) for holders in held[at]),
            "cpus": node.cpus,
            "memory_mib": node.memory_mib,
            "uuids": list(node.uuids),
            "features": list(node.features),
            "held": held[at],
            "jobs": jobs[at],
            "others": dict(zip(OTHERS, others.get(at, NOBODY), strict=True)),
        }
        for at, node in enumerate(nodes)
    ]
