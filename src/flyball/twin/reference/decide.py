"""The oracle's decision: the queue is sorted every time, then tried job by job."""

from __future__ import annotations

import math
from collections.abc import Collection
from copy import copy

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Evict, Order, Place
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.moves import move_up
from flyball.twin.reference.parts import (
    Device,
    DeviceRow,
    Job,
    Node,
    Placement,
    Pool,
    Reservation,
    doubled,
    give_back,
)
from flyball.twin.reference.place import (
    choose,
    fitting,
    pick,
    rate_in,
    row_on,
    within_budget,
)
from flyball.twin.reference.speeds import GUEST, sharers
from flyball.twin.reference.tenants import borrowed_jobs


def decide(cluster: Cluster, round_due: bool) -> None:
    """Make one decision; its actions take effect at once."""
    knobs = cluster.knobs

    # 1. The queue in order.
    queue = in_order(cluster)

    # 2. Jobs that start on free devices.
    if knobs.order == Order.FAIR:
        _start_fairly(cluster)
    elif knobs.backfill == Backfill.STRICT:
        _start_until_blocked(cluster, queue)
    elif knobs.backfill == Backfill.SKIP:
        scan = queue[: knobs.depth] if knobs.place == Place.HOLD else queue
        for job in scan:
            start_if_fits(cluster, job)
    else:
        blocked = _start_until_blocked(cluster, queue)
        _reserve(cluster, blocked)
        for job in blocked[1 : knobs.depth]:
            start_if_fits(cluster, job, cluster.reservation)

    # 3. In a round, jobs that start on devices that others must give back.
    waiting = in_order(cluster)  # a job preempted below is not in this list
    if round_due and knobs.order == Order.FAIR:
        _reclaim(cluster)
    elif round_due:
        _make_room(cluster, waiting)

    # 4. Then moves to faster pools, and jobs that start where the others left.
    if round_due and cluster.move_us > 0 and move_up(cluster):
        for job in waiting:
            if job.status == Status.PENDING:
                start_if_fits(cluster, job)

    # 5. Devices released from here on count as new for the next decision.
    cluster.capacity_grew = False


def key_s(cluster: Cluster, job: Job) -> float:
    """Return the job's sort key in seconds: smallest (key, index) first."""
    now_us, order = cluster.now_us, cluster.knobs.order
    running = job.status == Status.RUNNING
    submit_s = job.submit_us / 1e6
    if order in (Order.SUBMIT, Order.SHARES, Order.FAIR):
        key = submit_s
    elif order == Order.HISTORY:
        predicted_us = doubled(job.predicted_us, job.done_us)
        key = predicted_us / 1e6 * job.devices * job.milli / 1000
    elif order == Order.SHORTEST:
        key = job.key_guess(job.done_us) / 1e6
    elif order == Order.AREA:
        key = job.key_guess(job.done_us) / 1e6 * job.devices * job.milli / 1000
    elif order == Order.INDEX:
        key = _index_s(cluster, job)
    elif order == Order.REMAINING:
        done_us = job.done_us + job.progress(now_us) if running else job.done_us
        key = (job.key_guess(done_us) - done_us) / 1e6
    else:
        started = cluster.attained2_us > 0 and job.attempt > 0
        base = job.first_start_us / 1e6 if started else submit_s
        key = base + 1e10 * cluster.demotions(job)
    return key + cluster.knobs.ageing * submit_s - cluster.knobs.priority_s * job.priority


def _index_s(cluster: Cluster, job: Job) -> float:
    """Return the key of order = index: what is left by the estimate, times a power of the size."""
    knobs, running = cluster.knobs, job.status == Status.RUNNING
    done_us = job.done_us + job.progress(cluster.now_us) if running else job.done_us
    estimate_us = job.estimate_us * job.order_stretch
    by_estimate_us = estimate_us - knobs.index_slope * done_us
    least_us = knobs.index_floor * max(estimate_us, done_us)
    weight = math.pow(job.devices * job.milli / 1000, knobs.index_size)
    key = max(by_estimate_us, least_us) / 1e6 * weight
    return key * knobs.index_running if running else key


def in_order(cluster: Cluster) -> list[Job]:
    """Return the pending jobs in queue order."""
    pending = cluster.with_status(Status.PENDING)
    return sorted(pending, key=lambda job: (key_s(cluster, job), job.index))


def start_if_fits(cluster: Cluster, job: Job, reserved: Reservation | None = None) -> bool:
    """Start the job if the place rule finds room for it without delaying `reserved`."""
    placement = choose(cluster, job, reserved)
    if placement is not None:
        cluster.start(job, placement)
    return placement is not None


def _start_until_blocked(cluster: Cluster, queue: list[Job]) -> list[Job]:
    """Start jobs in order; return the head, which does not fit, and all behind it."""
    for position, job in enumerate(queue):
        if not start_if_fits(cluster, job):
            return queue[position:]
    return []


# TenantAccounts ---------------------------------------------------------------------


def _fairest(cluster: Cluster, jobs: list[Job]) -> Job:
    """Return the next job: within quota first, then by lowest tenant level, then by key."""
    tenants, now_us = cluster.tenants, cluster.now_us
    return min(
        jobs,
        key=lambda job: (
            tenants.borrows(job),
            tenants.level(tenants.of(job), now_us),
            key_s(cluster, job),
            job.index,
        ),
    )


def _start_fairly(cluster: Cluster) -> None:
    """Start jobs one by one; usage and levels are updated after each start."""
    blocked = set()
    while True:
        candidates = [
            job
            for job in cluster.with_status(Status.PENDING)
            if _shape(cluster, job) not in blocked and cluster.tenants.may_start(job)
        ]
        if not candidates:
            return
        job = _fairest(cluster, candidates)
        if not start_if_fits(cluster, job):
            blocked.add(_shape(cluster, job))


def _reclaim(cluster: Cluster) -> None:
    """Start jobs within their tenant's quota on devices that others borrowed."""
    passed_over = set()
    waiting = cluster.with_status(Status.PENDING)  # jobs preempted below are not in this list
    while True:
        candidates = [
            job
            for job in waiting
            if job.status == Status.PENDING
            and _shape(cluster, job) not in passed_over
            and not cluster.tenants.borrows(job)
        ]
        if not candidates:
            return
        job = _fairest(cluster, candidates)
        if start_if_fits(cluster, job):
            continue
        room = _first_pool_with_room(cluster, job, borrowed_jobs(cluster))
        if room is None:
            passed_over.add(_shape(cluster, job))
        else:
            _preempt_and_start(cluster, job, *room)


# Reservation -----------------------------------------------------------------


def _reserve(cluster: Cluster, blocked: list[Job]) -> None:
    """Keep, renew or drop the reservation of the head."""
    held = cluster.reservation
    if not blocked:
        cluster.reservation = None
        return
    head = blocked[0]
    if (
        held is None
        or held.job != head.index
        or cluster.capacity_grew
        or held.instant_us <= cluster.now_us
    ):
        by_pool = [_expected_room(cluster, head, cluster.pools[pool]) for pool in head.pools]
        candidates = [reservation for reservation in by_pool if reservation is not None]
        # Ties: the first, so the lowest pool.
        cluster.reservation = min(
            candidates, key=lambda reservation: reservation.instant_us, default=None
        )


def _expected_room(cluster: Cluster, head: Job, pool: Pool) -> Reservation | None:
    """Return when and on which nodes of the pool the head is expected to fit."""
    up = [node for node in cluster.nodes_of(pool) if not node.down]
    if head.devices <= pool.capacity:
        node_count, needed = 1, head.devices
    else:
        node_count, needed = math.ceil(head.devices / pool.capacity), pool.capacity
    # The instant at which `needed` whole devices and the host for them are free, node by node.
    instants = sorted((_expected_us(cluster, head, node, needed), node.index) for node in up)
    if len(instants) < node_count:
        return None
    chosen = instants[:node_count]
    nodes = frozenset(index for _, index in chosen)
    return Reservation(head.index, pool.index, nodes, chosen[-1][0])


def _expected_us(cluster: Cluster, head: Job, node: Node, needed: int) -> int:
    """Return when the node is expected to have `needed` whole devices free, and the host for them.

    That is now, or when one of the jobs on it is expected to end: the first instant at which
    the jobs that have ended by then leave enough.
    """
    jobs_here = [cluster.jobs[index] for index in node.jobs]
    ends_us = {job.index: job.expected_end_us(cluster.now_us) for job in jobs_here}
    for instant_us in sorted({cluster.now_us, *ends_us.values()}):
        gone = [job for job in jobs_here if ends_us[job.index] <= instant_us]
        after = _node_without(cluster, node, gone)
        if len(after.whole_free()) >= needed and after.hosts(head, needed):
            return instant_us
    raise AssertionError("a job fits its candidate nodes once they are idle")


# Preemption ------------------------------------------------------------------


def _make_room(cluster: Cluster, waiting: list[Job]) -> None:
    """Take devices from running jobs for pending jobs well before them in the order."""
    passed_over = set()
    for job in waiting:
        shape = _shape(cluster, job)
        if shape in passed_over or start_if_fits(cluster, job):
            continue
        room = _find_victims(cluster, job)
        if room is None:
            passed_over.add(shape)
            continue
        _preempt_and_start(cluster, job, *room)


def _preempt_and_start(
    cluster: Cluster, job: Job, pool: Pool, nodes: list[int], victims: list[Job]
) -> None:
    for victim in victims:
        cluster.preempt(victim)
    cluster.start(job, place_on(cluster, job, pool, nodes))


def _shape(cluster: Cluster, job: Job) -> tuple[object, ...]:
    """Return the job's shape: if one job of a shape finds no victims, none does."""
    memory_mib = job.memory_mib if job.fractional else 0
    host = job.cpu_milli, job.host_mib
    tenant = job.tenant if cluster.tenants.counts else None
    return job.devices, job.milli, memory_mib, host, tuple(job.pools), job.profile, tenant


def _find_victims(cluster: Cluster, job: Job) -> tuple[Pool, list[int], list[Job]] | None:
    """Return the jobs that give way to one well before them: see `_first_pool_with_room`."""
    behind = key_s(cluster, job) + cluster.knobs.margin_s
    starts_bound = cluster.knobs.preempt_starts
    ranked = sorted(
        (key_s(cluster, victim), victim.index)
        for victim in cluster.with_status(Status.RUNNING)
        if cluster.now_us - victim.ready_us >= cluster.round_us
        and (starts_bound == 0 or victim.attempt < starts_bound)
    )
    worst_first = [cluster.jobs[index] for key, index in reversed(ranked) if key > behind]
    return _first_pool_with_room(cluster, job, worst_first)


def _first_pool_with_room(
    cluster: Cluster, job: Job, worst_first: list[Job]
) -> tuple[Pool, list[int], list[Job]] | None:
    """Return the first pool where preempting makes room: it, its nodes, the jobs to preempt."""
    for pool in _searched(cluster, job):
        added: list[Job] = []
        for victim in [other for other in worst_first if other.pool == pool.index]:
            added.append(victim)
            nodes = _room_without(cluster, job, pool, added)
            if nodes:
                evicted = [other for other in added if _touches(other, nodes)]
                if within_budget(cluster, job, pool, power_without(cluster, evicted)):
                    return pool, nodes, evicted
                break
    return None


def _searched(cluster: Cluster, job: Job) -> list[Pool]:
    """Return the pools the job could run on, in the order in which it looks for victims there."""
    if cluster.knobs.evict == Evict.FASTEST:
        return [pool for pool in cluster.fastest_first if pool.index in job.pools]
    pools = [cluster.pools[index] for index in job.pools]
    if cluster.knobs.evict == Evict.BEST:
        pools.sort(key=lambda pool: -rate_in(job, pool))  # ties: lowest pool
    return pools


def _room_without(cluster: Cluster, job: Job, pool: Pool, added: list[Job]) -> list[int]:
    """Return nodes of the pool where the job would fit without the jobs `added`, or none."""
    if job.devices <= pool.capacity:
        # Only a node of the job added last can newly have enough room.
        for index in sorted(row.node for row in added[-1].rows):
            after = _node_without(cluster, cluster.nodes[index], added)
            if len(fitting(job, after)) >= job.devices and after.hosts(job, job.devices):
                return [index]
        return []
    needed = math.ceil(job.devices / pool.capacity)
    after_eviction = [_node_without(cluster, node, added) for node in cluster.nodes_of(pool)]
    empty = [
        node.index
        for node in after_eviction
        if not node.down
        and len(node.whole_free()) == pool.capacity
        and node.hosts(job, pool.capacity)
    ]
    return empty[:needed] if len(empty) >= needed else []


def _node_without(cluster: Cluster, node: Node, gone: list[Job]) -> Node:
    """Return the node as it would be without these jobs."""
    after = copy(node)
    after.devices = [Device(device.free_milli, device.free_mib) for device in node.devices]
    pool = cluster.pool_of(node)
    for job in gone:
        for row in [part for part in job.rows if part.node == node.index]:
            cpu_milli, host_mib = job.on_host(row.mask.bit_count())
            after.free_cpu_milli += cpu_milli
            after.free_host_mib += host_mib
            if row.milli == GUEST or _guest_stays(cluster, row, gone):
                continue
            for number, device in enumerate(after.devices):
                if row.mask >> number & 1:
                    give_back(device, job, pool)
    return after


def _guest_stays(cluster: Cluster, row: DeviceRow, gone: list[Job]) -> bool:
    """Return whether a guest would keep the devices of a row."""
    staying = [job for job in sharers(cluster, row) if job not in gone]
    return any(part.milli == GUEST for job in staying for part in job.rows)


def power_without(cluster: Cluster, gone: list[Job]) -> float:
    """Return the cluster's draw after these jobs were released, in this order, row by row."""
    power_w = cluster.power_w
    for job in gone:
        for row in job.rows:
            power_w -= cluster.held_w(job, row.mask.bit_count())
    return power_w


def _touches(job: Job, nodes: Collection[int]) -> bool:
    return any(row.node in nodes for row in job.rows)


def place_on(cluster: Cluster, job: Job, pool: Pool, nodes: list[int]) -> Placement:
    """Return a placement on cleared nodes: each gives what it can until the gang is complete."""
    rows = []
    missing = job.devices
    for node in [cluster.nodes[index] for index in nodes]:
        devices = pick(cluster, job, node) if len(nodes) == 1 else node.whole_free()[:missing]
        rows.append(row_on(job, node, devices))
        missing -= len(devices)
    assert missing == 0
    return Placement(pool.index, tuple(rows))
