"""The oracle carries out plans of tuners: starts of any size, caps, sleep, guests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flyball.core.codes import ActionKind, Status
from flyball.core.records import Records
from flyball.core.units import FOREVER_US
from flyball.twin.reference.cluster import Cluster
from flyball.twin.reference.parts import DeviceRow, Node, Placement
from flyball.twin.reference.speeds import GUEST, change_speed, update_shared_speeds


def enact(
    cluster: Cluster,
    plan: Records,
    scale: Callable[[int, int], None],
    release: Callable[[int], None],
) -> None:
    """Carry out the actions one after the other.

    Args:
        scale: sets the replicas of a service.
        release: ends the deferral of a job.
    """
    rows: list[Any] = list(plan)
    while rows:
        first = rows[0]
        count = 1
        if first.kind == ActionKind.START:
            while count < len(rows) and _same_start(rows[count], first):
                count += 1
            _start(cluster, rows[:count])
        elif first.kind == ActionKind.PREEMPT:
            cluster.preempt(cluster.jobs[int(first.job)])
        elif first.kind == ActionKind.CAP:
            _cap(cluster, int(first.job), int(first.level))
        elif first.kind == ActionKind.SLEEP:
            _sleep(cluster, cluster.nodes[int(first.node)])
        elif first.kind == ActionKind.WAKE:
            _wake(cluster, cluster.nodes[int(first.node)])
        elif first.kind == ActionKind.REPLICAS:
            scale(int(first.job), int(first.level))
        elif first.kind == ActionKind.RELEASE:
            release(int(first.job))
        elif first.kind == ActionKind.DEFER:
            _hold_back(cluster, int(first.job), int(first.gain))
        elif first.kind == ActionKind.BUDGET:
            cluster.budget_w = float(first.gain)
        else:
            raise AssertionError(f"no action of kind {first.kind}")
        rows = rows[count:]


def _same_start(row: Any, first: Any) -> bool:
    return bool(row.kind == ActionKind.START and row.job == first.job)


def _start(cluster: Cluster, rows: Sequence[Any]) -> None:
    job = cluster.jobs[int(rows[0].job)]
    taken = tuple(DeviceRow(int(row.node), int(row.mask), int(row.milli)) for row in rows)
    pool = cluster.pool_of(cluster.nodes[taken[0].node])
    cluster.start(job, Placement(pool.index, taken), int(rows[0].level))
    if taken[0].milli == GUEST:
        update_shared_speeds(cluster, taken[0])


def _cap(cluster: Cluster, index: int, level: int) -> None:
    job, level = cluster.jobs[index], max(level, cluster.cap)
    if level != job.cap:
        change_speed(cluster, job, level, job.slow)


def _hold_back(cluster: Cluster, index: int, until_us: int) -> None:
    job = cluster.jobs[index]
    if job.status == Status.PENDING and job.group < 0 and until_us > cluster.now_us:
        job.status, job.defer_us = Status.HELD, until_us
        if cluster.reservation is not None and cluster.reservation.job == index:
            cluster.reservation = None


def _sleep(cluster: Cluster, node: Node) -> None:
    assert node.idle_since_us is not None
    cluster.bring_up_to_date(node)
    node.sleeps_us = min(node.sleeps_us, cluster.now_us)


def _wake(cluster: Cluster, node: Node) -> None:
    assert node.idle_since_us is not None
    cluster.bring_up_to_date(node)
    if cluster.asleep(node):
        node.awake_us = cluster.now_us + cluster.pool_of(node).wake_us
    node.sleeps_us = FOREVER_US
