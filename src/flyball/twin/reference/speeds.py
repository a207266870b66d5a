"""The oracle's speeds that change while a job runs: by its cap, or by jobs on its device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.twin.reference.parts import DeviceRow, Job

if TYPE_CHECKING:
    from flyball.twin.reference.cluster import Cluster

GUEST = 0
"""`milli` of a row whose device another job holds."""


def sharers(cluster: Cluster, row: DeviceRow) -> list[Job]:
    """Return the jobs on the devices of a row, by index."""
    here = sorted(set(cluster.nodes[row.node].jobs))
    return [cluster.jobs[index] for index in here if _overlaps(cluster.jobs[index], row)]


def speed_beside(cluster: Cluster, job: Job, other: Job, pool: int) -> float:
    """Return the speed of one job next to another as a fraction of its speed alone."""
    at = (pool * cluster.profiles + job.profile) * cluster.profiles + other.profile
    return float(cluster.pairs[at])


def update_shared_speeds(cluster: Cluster, row: DeviceRow) -> None:
    """Update the speed of all jobs on a device after one came or left."""
    if not cluster.pairs:
        return
    here = sharers(cluster, row)
    for job in here:
        slow = 1.0
        if job.held == 1:
            for other in here:
                if other is not job:
                    slow *= speed_beside(cluster, job, other, job.pool)
        if slow != job.slow:
            change_speed(cluster, job, job.cap, slow)


def change_speed(cluster: Cluster, job: Job, level: int, slow: float) -> None:
    """Continue a running job under another cap or next to other jobs."""
    progress = job.progress(cluster.now_us)
    cluster.charge_slice(job)
    job.done_us += progress
    job.since_us, job.ready_us = cluster.now_us, max(job.ready_us, cluster.now_us)
    add_power(cluster, job, -1)
    job.cap, job.slow = level, slow
    job.rate = cluster.slice_rate(job)
    job.watts = cluster.charged_w(job, cluster.pools[job.pool], job.held, level) * slow
    add_power(cluster, job, 1)
    cluster.peak_power_w = max(cluster.peak_power_w, cluster.power_w)
    cluster.plan_end(job)


def add_power(cluster: Cluster, job: Job, sign: int) -> None:
    """Add (1) or take away (-1) the draw of a running job."""
    for row in job.rows:
        node = cluster.nodes[row.node]
        cluster.bring_up_to_date(node)
        added = sign * cluster.held_w(job, row.mask.bit_count())
        node.power_w += added
        cluster.power_w += added


def _overlaps(job: Job, row: DeviceRow) -> bool:
    return any(part.node == row.node and part.mask & row.mask for part in job.rows)
