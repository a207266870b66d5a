"""The oracle's moves: running jobs go on in a faster pool that has room.

"Moves" of `docs/concept/twin.md` in plain Python: every pair of a job and a pool is listed.
"""

from __future__ import annotations

from flyball.core.codes import Status
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.parts import Job, Placement, Pool
from flyball.twin.reference.place import fit, rate_in, within_budget


def move_up(cluster: Cluster) -> bool:
    """Move jobs to faster pools, the largest saving first; return whether any job moved."""
    pairs = [
        (-_saved_us(cluster, job, rate_in(job, cluster.pools[pool]), 0), job.index, pool)
        for job in cluster.with_status(Status.RUNNING)
        if _may_move(cluster, job)
        for pool in job.pools
        if pool != job.pool
    ]
    moved = set()
    for negative_us, index, pool in sorted(pairs):
        pays = -negative_us > cluster.move_us and index not in moved
        if pays and _move(cluster, cluster.jobs[index], cluster.pools[pool]):
            moved.add(index)
    return bool(moved)


def _may_move(cluster: Cluster, job: Job) -> bool:
    """Return whether the bounds on moves let the job move again."""
    knobs, now_us = cluster.knobs, cluster.now_us
    cost_us = job.attempt * (job.checkpoint_us + job.restart_us)
    estimate_us = job.guess(job.done_us + job.progress(now_us))
    return (
        now_us - job.ready_us >= cluster.round_us
        and job.attempt <= knobs.move_starts
        and cost_us <= knobs.move_cost * estimate_us
    )


def _saved_us(cluster: Cluster, job: Job, rate: float, wake_us: int) -> float:
    """Return how much earlier the job is expected to end after a move to where it has `rate`."""
    now_us = cluster.now_us
    done_us = job.done_us + job.progress(now_us)
    kept_us = job.done_us + max(0, now_us - job.ready_us - job.checkpoint_us) * job.rate
    estimate_us = job.guess(done_us)
    stays_us = (estimate_us - done_us) / job.rate
    return stays_us - (job.restart_us + wake_us + (estimate_us - kept_us) / rate)


def _move(cluster: Cluster, job: Job, pool: Pool) -> bool:
    """Move the job if the pool has room, the saving holds there and the power budget allows it."""
    place = fit(cluster, job, pool)
    if place is None or _saved_at_us(cluster, job, pool, place) <= cluster.move_us:
        return False
    power_w = cluster.power_w
    for row in job.rows:
        power_w -= cluster.held_w(job, row.mask.bit_count())
    if not within_budget(cluster, job, pool, power_w):
        return False
    cluster.preempt(job)
    cluster.start(job, place)
    return True


def _saved_at_us(cluster: Cluster, job: Job, pool: Pool, place: Placement) -> float:
    """Return the saving at this place, whose nodes may be asleep or more than necessary."""
    packed = len(place.rows) == max(1, -(-job.devices // pool.capacity))
    rate = rate_in(job, pool) if packed else job.rates[pool.index].spread / pool.slowdown
    return _saved_us(cluster, job, rate, cluster.wake_us(place))
