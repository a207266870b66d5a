"""The oracle's rounds: a policy sets the share of time each job should run in each pool.

`update_targets` brings the targets up to date, `decide_by_shares` turns them into starts and
preemptions, as in "Shares and rounds" of `docs/concept/twin.md`; nothing is cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Leftover, Starts, Turns, Types
from flyball.core.units import MILLI_PER_DEVICE
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.decide import in_order, place_on, power_without, start_if_fits
from flyball.twin.reference.fragmentation import mixed
from flyball.twin.reference.parts import Job, Node, Pool
from flyball.twin.reference.place import fit, within_budget

Targets = Callable[[int, tuple[int, ...]], npt.ArrayLike]
"""A policy: maps (now_us, indices of the active jobs) to the targets, by job and pool."""


def update_targets(cluster: Cluster, targets: Targets) -> None:
    """Ask for new targets in a round, if anything changed and the last ones are old enough."""
    now_us, never = cluster.now_us, cluster.asked_us < 0
    recent = not never and now_us - cluster.asked_us < cluster.solve_us
    active = tuple(job.index for job in _active(cluster))
    if not cluster.changed or recent or not active:
        return
    table = np.asarray(targets(now_us, active), np.float64)
    assert table.shape == (len(cluster.jobs), len(cluster.pools))
    last_us = now_us if never else cluster.asked_us
    for job in cluster.jobs:
        for pool in cluster.pools:
            share, received_us = job.shares[pool.index], _received_us(cluster, job, pool)
            share.deficit_us += share.target * (now_us - last_us) - received_us
            share.received_us = 0
            share.target = float(table[job.index, pool.index]) if _could_run(job, pool) else 0.0
    cluster.asked_us = now_us
    cluster.changed = False


def decide_by_shares(cluster: Cluster, round_due: bool) -> None:
    """Make one decision with order = shares; its actions take effect at once."""
    if round_due:
        _round(cluster)
    elif cluster.knobs.backfill == Backfill.SKIP and cluster.knobs.starts == Starts.ANY_TIME:
        for job in in_order(cluster):
            start_if_fits(cluster, job)


def _round(cluster: Cluster) -> None:
    # 1. Choose the job-pool pairs that run until the next round.
    chosen = _choose(cluster)

    # 2. Preempt jobs that run in another pool or should not run at all.
    for job in cluster.with_status(Status.RUNNING):
        if chosen.get(job.index) != job.pool:
            cluster.preempt(job)

    # 3. Start the others, largest first. Jobs displaced on the way join the end of the line.
    waiting = [cluster.jobs[index] for index in chosen]
    waiting = [job for job in waiting if job.status == Status.PENDING]
    while waiting:
        job = max(waiting, key=_size)  # ties: the first in line
        waiting.remove(job)
        waiting += _start(cluster, job, cluster.pools[chosen[job.index]])


# Choose ----------------------------------------------------------------------


def _choose(cluster: Cluster) -> dict[int, int]:
    """Return the pool of each job that should run until the next round, in the order chosen."""
    active = _active(cluster)
    chosen: dict[int, int] = {}
    skips = cluster.knobs.backfill == Backfill.SKIP
    if skips and cluster.knobs.leftover == Leftover.BY_POOL:
        _choose_among(cluster, active, (True, False), chosen)
        return chosen
    _choose_among(cluster, active, (True,), chosen)
    untargeted = not any(share.target > 0 for job in active for share in job.shares)
    if skips or untargeted:
        _choose_among(cluster, active, (False,), chosen)
    return chosen


def _choose_among(
    cluster: Cluster, active: list[Job], targeted: tuple[bool, ...], chosen: dict[int, int]
) -> None:
    """Give what is left of each pool to the jobs with a target there, to those without, or both."""
    for pool in pools_in_order(cluster):
        up = [node for node in cluster.nodes_of(pool) if not node.down]
        left = MILLI_PER_DEVICE * sum(len(node.devices) for node in up)
        left -= sum(_size(cluster.jobs[job]) for job, at in chosen.items() if at == pool.index)
        ranked = sorted(
            (-_priority(cluster, job, pool), -job.shares[pool.index].deficit_us, job.index)
            for job in active
            if _could_run(job, pool) and job.index not in chosen
        )
        for _, _, index in ranked:
            size = _size(cluster.jobs[index])
            has_target = cluster.jobs[index].shares[pool.index].target > 0
            if size <= left and has_target in targeted:
                chosen[index] = pool.index
                left -= size


def pools_in_order(cluster: Cluster) -> list[Pool]:
    """Return the pools in the order in which this round fills them."""
    if cluster.knobs.types == Types.FASTEST:
        return cluster.fastest_first
    base = mixed(mixed(cluster.knobs.shuffle_seed) + cluster.now_us // cluster.round_us)
    return sorted(cluster.pools, key=lambda pool: (mixed(base + pool.index), pool.index))


def _priority(cluster: Cluster, job: Job, pool: Pool) -> float:
    """Return target over time received, or the time that is owed.

    Half a round is added to the time received so that it is never 0.
    """
    received_us, share = _received_us(cluster, job, pool), job.shares[pool.index]
    if cluster.knobs.turns == Turns.SHARE:
        return share.target / (cluster.round_us / 2 + received_us)
    if share.target == 0:
        return -1e18
    return share.deficit_us + share.target * (cluster.now_us - cluster.asked_us) - received_us


def _received_us(cluster: Cluster, job: Job, pool: Pool) -> int:
    """Return the time the job had in the pool since the policy was last asked."""
    received_us = job.shares[pool.index].received_us
    if job.status == Status.RUNNING and job.pool == pool.index:
        received_us += cluster.slice_us(job)
    return received_us


def _active(cluster: Cluster) -> list[Job]:
    return [job for job in cluster.jobs if job.status in (Status.PENDING, Status.RUNNING)]


def _could_run(job: Job, pool: Pool) -> bool:
    return pool.index in job.pools


def _size(job: Job) -> int:
    return job.devices * job.milli


# Start -----------------------------------------------------------------------


def _start(cluster: Cluster, job: Job, pool: Pool) -> list[Job]:
    """Start a chosen job in its pool if possible; return the jobs displaced for it."""
    if cluster.knobs.starts == Starts.DIVIDED and job.submit_us > cluster.asked_us:
        return []
    nodes: list[int] = []
    victims: list[Job] = []
    placement = fit(cluster, job, pool)
    if placement is None:
        nodes, victims = _nodes_to_clear(cluster, job, pool)
        if not nodes:
            return []
    if not within_budget(cluster, job, pool, power_without(cluster, victims)):
        return []
    for victim in victims:
        cluster.preempt(victim)
    if placement is None:
        placement = place_on(cluster, job, pool, nodes)
    cluster.start(job, placement)
    return victims


def _nodes_to_clear(cluster: Cluster, job: Job, pool: Pool) -> tuple[list[int], list[Job]]:
    """Return nodes where the job fits once smaller jobs are preempted, and those jobs in order.

    Returns no nodes if it fits nowhere.
    """
    if job.fractional or job.cpu_milli or job.host_mib:
        return [], []
    if job.devices <= pool.capacity:
        node_count, needed = 1, job.devices
    else:
        node_count, needed = math.ceil(job.devices / pool.capacity), pool.capacity
    up = [node for node in cluster.nodes_of(pool) if not node.down]
    able = [node for node in up if _free_without(node, _movable(cluster, job, node)) >= needed]
    if len(able) < node_count:
        return [], []
    # Ties: lowest index.
    nodes = sorted(able, key=lambda node: -len(node.whole_free()))[:node_count]
    victims: list[Job] = []
    for node in nodes:
        gone: list[Job] = []
        for smaller in _movable(cluster, job, node):
            if _free_without(node, gone) < needed:
                gone.append(smaller)
        victims += gone
    return sorted(node.index for node in nodes), victims


def _movable(cluster: Cluster, job: Job, node: Node) -> list[Job]:
    """Return the jobs of the node that may be displaced for a larger one, fewest devices first.

    None of them was started in this decision, because the largest start first.
    """
    smaller = [
        other
        for other in (cluster.jobs[index] for index in node.jobs)
        if not other.fractional and 0 < other.devices < job.devices and other.nodes == 1
    ]
    return sorted(smaller, key=lambda other: (other.devices, other.index))


def _free_without(node: Node, gone: list[Job]) -> int:
    """Return the number of whole free devices of the node without these one-node jobs."""
    return len(node.whole_free()) + sum(job.devices for job in gone)
