"""Explains that there are devices for the job, but no host with the cores and memory it needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.units import MIB_PER_GIB, MILLI_PER_CORE
from flyball.schedule.explain.answer import Explanation, explanation, smaller, wait_text
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.schedule.explain.whatif import PlacementProbe, Spot, on_a_node


def host_text(cpu_milli: int, host_mib: int) -> str:
    """Return `12 cores and 48 GiB`, or the one of the two that is asked for."""
    noun = "core" if cpu_milli == MILLI_PER_CORE else "cores"
    cores, memory = f"{cpu_milli / MILLI_PER_CORE:g} {noun}", f"{host_mib / MIB_PER_GIB:.4g} GiB"
    if not host_mib:
        return cores
    return f"{cores} and {memory}" if cpu_milli else memory


def host_full(facts: QueueFacts, job_id: int, probe: PlacementProbe, spot: Spot) -> Explanation:
    """Explain why hosts have no room for a job that would otherwise start at `spot`."""
    job = facts.state.jobs[job_id]
    pool_id = spot.pool
    cpu_milli, host_mib = on_a_node(facts.state, job_id, pool_id)
    pool = facts.state.pools[pool_id]
    first, count = int(pool.first_node), int(pool.nodes)
    nodes: Any = facts.state.nodes[first : first + count]
    devices = min(int(job.devices), int(pool.capacity))
    with_room = (nodes.down == 0) & (nodes.free >= (devices if job.milli == 1000 else 0))
    most_cpu = int(np.max(nodes.free_cpu_milli[with_room], initial=0))
    most_mib = int(np.max(nodes.free_host_mib[with_room], initial=0))
    of_host = "of each host" if job.devices > pool.capacity else "of a host"
    where = "nodes" if job.devices == 0 else f"nodes with {facts.names.units} free for it"
    why = (
        f"needs {host_text(cpu_milli, host_mib)} {of_host}; of the {where} in "
        f"{facts.names.group(pool_id)} none has that: at most {host_text(most_cpu, most_mib)}"
    )
    numbers: dict[str, Any] = {
        "cores": cpu_milli / MILLI_PER_CORE,
        "host_gib": host_mib / MIB_PER_GIB,
        "most_cores_free": most_cpu / MILLI_PER_CORE,
        "most_host_gib_free": most_mib / MIB_PER_GIB,
    }
    remedies = [wait_text(facts, job_id, numbers), smaller(facts, job_id, probe)]
    place = spot.text(facts.state, facts.names)
    remedies.append(f"ask less of the host: without that it would start now {place}")
    return explanation(facts, job_id, "host-full", why, remedies, **numbers)
