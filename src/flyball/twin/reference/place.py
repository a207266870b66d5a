"""The oracle's placement: it tries every node to find where a job would go.

`choose` picks the pool by the place rule, `fit` the nodes inside a pool. Nothing changes here.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from flyball.core.knobs import Place, Span
from flyball.core.units import POWER_SLACK
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.fragmentation import cost_on, draw, growth, least_devices, level
from flyball.twin.reference.parts import DeviceRow, Job, Node, Placement, Pool, Reservation

IN_POOL_ORDER = (Place.FASTEST, Place.EFFICIENT, Place.HOLD)
"""Place rules that rank pools beforehand and take the first that fits."""


def choose(cluster: Cluster, job: Job, reserved: Reservation | None = None) -> Placement | None:
    """Return where the job starts now, or None if it does not fit (without delaying `reserved`)."""
    placements = []
    for pool in _candidate_pools(cluster, job):
        avoid: Collection[int] = ()
        if reserved is not None and reserved.pool == pool.index:
            late = _expected_end_us(cluster, job, pool) > reserved.instant_us
            avoid = reserved.nodes if late else ()
        placement = fit(cluster, job, pool, avoid)
        if placement is not None and within_budget(cluster, job, pool, cluster.power_w):
            placements.append(placement)
    if cluster.knobs.place in IN_POOL_ORDER:
        return placements[0] if placements else None
    # Ties: the first, so the lowest pool.
    return min(placements, key=lambda placement: placement.cost, default=None)


def within_budget(cluster: Cluster, job: Job, pool: Pool, power_w: float) -> bool:
    """Return whether a cluster that draws `power_w` may start the job in this pool."""
    added = cluster.added_w(job, pool, job.devices)
    return cluster.budget_w == 0 or power_w + added <= cluster.budget_w * POWER_SLACK


def fit(cluster: Cluster, job: Job, pool: Pool, avoid: Collection[int] = ()) -> Placement | None:
    """Return where in this pool the job would go, as if the nodes in `avoid` did not exist."""
    nodes = [node for node in cluster.nodes_of(pool) if not node.down and node.index not in avoid]
    if job.fractional or job.devices <= pool.capacity:
        placement = _on_one(cluster, job, pool, nodes)
    else:
        placement = _empty_nodes(cluster, job, pool, nodes)
    gathers = cluster.knobs.span == Span.ANY and not job.fractional and job.devices > 0
    if placement is None and gathers:
        placement = _gather(cluster, job, pool, nodes)
    return placement


def fitting(job: Job, node: Node) -> list[int]:
    """Return the devices of the node that could take the job, in the order it takes them."""
    return eligible(job, node) if job.fractional else node.whole_free()


def eligible(job: Job, node: Node) -> list[int]:
    """Return the devices of the node that could take the job, smallest free milli first."""
    ranked = [
        (device.free_milli, number)
        for number, device in enumerate(node.devices)
        if device.whole_free
        or (device.free_milli >= job.milli and device.free_mib >= job.memory_mib)
    ]
    return [number for _, number in sorted(ranked)]


def row_on(job: Job, node: Node, devices: list[int]) -> DeviceRow:
    """Return a row of the job on these devices of the node."""
    return DeviceRow(node.index, sum(1 << number for number in devices), job.milli)


# Inside a pool ---------------------------------------------------------------


def _on_one(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Return the place rule's choice for a job that one node can hold."""
    hosts = [node for node in nodes if node.hosts(job, job.devices)]
    if cluster.knobs.place in (Place.FGD, Place.RANDOM):
        return _compared(cluster, job, pool, hosts)
    if job.fractional:
        return _share(cluster, job, pool, hosts) or _one_node(cluster, job, pool, hosts)
    return _one_node(cluster, job, pool, hosts)


def _compared(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Return the cheapest placement, each node having its own cost; ties: lowest index."""
    placements = []
    for node in nodes:
        if len(fitting(job, node)) >= job.devices:
            devices = pick(cluster, job, node)
            cost = (
                (float(draw(cluster, node.index)),)
                if cluster.knobs.place == Place.RANDOM
                else cost_on(cluster, job, node, devices)
            )
            placements.append(Placement(pool.index, (row_on(job, node, devices),), cost))
    return min(placements, key=lambda placement: placement.cost, default=None)


def pick(cluster: Cluster, job: Job, node: Node) -> list[int]:
    """Return the devices that a job takes of a node that has room for it."""
    devices = fitting(job, node)
    if cluster.knobs.place == Place.FGD:
        return least_devices(cluster, job, node, devices)
    if cluster.knobs.place == Place.RANDOM and job.fractional:
        devices = sorted(devices, key=lambda number: (draw(cluster, node.index, number), number))
    return devices[: job.devices]


def _one_node(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Return the place rule's node with enough whole free devices; its lowest numbered ones."""
    large = [node for node in nodes if len(node.whole_free()) >= job.devices]
    if not large:
        return None
    place = cluster.knobs.place
    if place == Place.SPREAD:
        node = max(large, key=lambda candidate: len(candidate.whole_free()))  # ties: the first
    else:
        node = min(large, key=lambda candidate: len(candidate.whole_free()))
    free = len(node.whole_free())
    cost = {Place.SPREAD: -free, Place.PACK: -(pool.capacity - free)}.get(place, free - job.devices)
    row = row_on(job, node, node.whole_free()[: job.devices])
    return Placement(pool.index, (row,), (float(cost),))


def _empty_nodes(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Place a gang larger than a node: on empty nodes, and best fit for the rest."""
    count, rest = divmod(job.devices, pool.capacity)
    empty = [node for node in nodes if len(node.whole_free()) == pool.capacity]
    chosen = [node for node in empty if node.hosts(job, pool.capacity)][:count]
    if len(chosen) < count:
        return None
    rows = [row_on(job, node, node.whole_free()) for node in chosen]
    if rest:
        others = [
            node
            for node in nodes
            if node not in chosen and len(node.whole_free()) >= rest and node.hosts(job, rest)
        ]
        if not others:
            return None
        last = min(others, key=lambda node: len(node.whole_free()))
        rows.append(row_on(job, last, last.whole_free()[:rest]))
    return Placement(pool.index, tuple(rows), _cost_of_many(cluster, job, pool, rows))


def _gather(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Place a gang on devices of any nodes, most whole free first."""
    rows = []
    missing = job.devices
    for node in sorted(nodes, key=lambda node: -len(node.whole_free())):  # ties: lowest index
        free = node.whole_free()[:missing]
        most = max((k for k in range(len(free) + 1) if node.hosts(job, k)), default=0)
        devices = free[:most]
        if devices:
            rows.append(row_on(job, node, devices))
            missing -= len(devices)
        if not missing:
            break
    if missing:
        return None
    return Placement(pool.index, tuple(rows), _cost_of_many(cluster, job, pool, rows))


def _share(cluster: Cluster, job: Job, pool: Pool, nodes: list[Node]) -> Placement | None:
    """Place a fraction next to others: on the node with least to spare on its devices."""
    best: tuple[int, DeviceRow] | None = None
    for node in nodes:
        devices = eligible(job, node)
        # Smallest free milli first, so an open device, if any is eligible, is the first.
        if len(devices) < job.devices or node.devices[devices[0]].whole_free:
            continue
        devices = devices[: job.devices]
        spare = sum(node.devices[number].free_milli for number in devices)
        if best is None or spare < best[0]:
            best = spare, row_on(job, node, devices)
    if best is None:
        return None
    return Placement(pool.index, (best[1],), _cost_of_many(cluster, job, pool, [best[1]]))


def _cost_of_many(
    cluster: Cluster, job: Job, pool: Pool, rows: list[DeviceRow]
) -> tuple[float, ...]:
    """Return the cost of gangs over nodes and of shared devices: 0, for spread the most free.

    For fgd it is the level of all that the rows add; for random the draw of the pool's first node.
    """
    if cluster.knobs.place == Place.RANDOM:
        return (float(draw(cluster, pool.first_node)),)
    if cluster.knobs.place == Place.FGD:
        grown = 0
        for row in rows:
            devices = [number for number in range(pool.capacity) if row.mask >> number & 1]
            grown += growth(cluster, job, cluster.nodes[row.node], devices)
        return (float(level(cluster, grown)), 0.0, 0.0)
    return (-math.inf,) if cluster.knobs.place == Place.SPREAD else (0.0,)


# Which pools -----------------------------------------------------------------


def _candidate_pools(cluster: Cluster, job: Job) -> list[Pool]:
    """Return the pools the place rule admits, in the order in which it tries them."""
    pools = [cluster.pools[index] for index in job.pools]
    place = cluster.knobs.place
    if place == Place.EFFICIENT:
        return sorted(
            pools,
            key=lambda pool: (
                cluster.charged_w(job, pool, job.devices, cluster.cap) / rate_in(job, pool)
            ),
        )
    if place == Place.HOLD:
        left = job.guess(job.done_us) - job.done_us
        best = max(rate_in(job, pool) for pool in pools)
        longest = left / best + cluster.hold_us
        pools = [pool for pool in pools if left / rate_in(job, pool) <= longest]
    if place in (Place.FASTEST, Place.HOLD):
        return sorted(pools, key=lambda pool: -rate_in(job, pool))
    return pools


def rate_in(job: Job, pool: Pool) -> float:
    """Return the job's progress per microsecond in the pool, on the fewest nodes possible."""
    return job.rates[pool.index].packed / pool.slowdown


def _expected_end_us(cluster: Cluster, job: Job, pool: Pool) -> int:
    """Return when policies would expect the job to end if it started in this pool now."""
    left = job.guess(job.done_us) - job.done_us
    return cluster.now_us + job.setup_us + math.ceil(left / rate_in(job, pool))
