"""The oracle's tenants (order = fair): their usage, and the jobs on borrowed devices."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flyball.core.accounts import own_rows
from flyball.core.codes import Status
from flyball.core.knobs import Order
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE
from flyball.twin.reference.parts import Job, Pool

if TYPE_CHECKING:
    from flyball.twin.reference.cluster import Cluster


@dataclass(slots=True)
class TenantAccount:
    """Holds the quota, limit and usage of one tenant."""

    quota_milli: int
    limit_milli: int
    weight: float
    since_us: int
    usage: float = 0.0
    used_milli: int = 0
    use_milli: dict[int, int] = field(default_factory=dict)  # by pool


class TenantAccounts:
    """Holds the accounts of all tenants; they count while the order is fair."""

    def __init__(self, state: State, pools: list[Pool], decay: float, order: Order) -> None:
        self._pools, self._decay = pools, decay
        self.counts = order == Order.FAIR
        self.rows = [
            TenantAccount(
                int(row.quota_milli), int(row.limit_milli), float(row.weight), int(row.since_us)
            )
            for row in (own_rows(state.tenants, len(pools)) if self.counts else ())
        ]

    def of(self, job: Job) -> TenantAccount:
        """Return the tenant of a job; those without one share the last."""
        return self.rows[job.tenant]  # -1 is the last

    def dominant_share(self, tenant: TenantAccount) -> float:
        return max(
            tenant.use_milli.get(pool.index, 0) / (MILLI_PER_DEVICE * pool.nodes * pool.capacity)
            for pool in self._pools
        )

    def usage_at(self, tenant: TenantAccount, now_us: int) -> float:
        """Return the decayed mean of the tenant's dominant share."""
        if now_us == tenant.since_us:
            return tenant.usage
        share = self.dominant_share(tenant)
        kept = math.exp((tenant.since_us - now_us) * self._decay)
        return share + (tenant.usage - share) * kept

    def level(self, tenant: TenantAccount, now_us: int) -> float:
        return (self.usage_at(tenant, now_us) + self.dominant_share(tenant)) / tenant.weight

    def charge(self, job: Job, sign: int, now_us: int) -> None:
        """Account for a job that starts (1) or is released (-1)."""
        if not self.counts:
            return
        tenant = self.of(job)
        tenant.usage = self.usage_at(tenant, now_us)
        tenant.since_us = now_us
        tenant.used_milli += sign * job.asks_milli
        before = tenant.use_milli.get(job.pool, 0)
        tenant.use_milli[job.pool] = before + sign * job.asks_milli

    def may_start(self, job: Job) -> bool:
        tenant = self.of(job)
        return tenant.used_milli + job.asks_milli <= tenant.limit_milli

    def borrows(self, job: Job) -> bool:
        """Return whether the job would go beyond its tenant's quota."""
        tenant = self.of(job)
        return tenant.used_milli + job.asks_milli > tenant.quota_milli


def borrowed_jobs(cluster: Cluster) -> list[Job]:
    """Return the running jobs beyond their tenant's quota, latest started first.

    They may be preempted for a job within its quota.
    """
    borrowed = []
    up_to: dict[int, int] = {}  # by tenant: asks of its jobs so far
    running = cluster.with_status(Status.RUNNING)
    for job in sorted(running, key=lambda job: job.start_number):
        up_to[job.tenant] = up_to.get(job.tenant, 0) + job.asks_milli
        beyond = up_to[job.tenant] > cluster.tenants.of(job).quota_milli
        if beyond and job.since_us < cluster.now_us:
            borrowed.append(job)
    return borrowed[::-1]
