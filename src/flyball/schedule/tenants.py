"""Accounts for what tenants use: their part of the cluster now and recently (order = fair).

The resources of dominant-resource fairness are the pools' devices. Each resource has a row behind
the tenant's, so that further resources can be added.
"""

from __future__ import annotations

import math
from typing import Any

from flyball.physics.compile import kernel
from flyball.schedule.order import memo_of


@kernel
def asks_milli(job: Any) -> int:
    """Return the thousandths of devices that a job (or a job of a shape) holds while it runs."""
    return int(job.devices) * int(job.milli)


@kernel
def tenant_of(state: Any, job_id: int) -> int:
    """Return the row of a job's tenant; the rows of its resources follow it."""
    stride, tenant_id = 1 + len(state.pools), state.jobs[job_id].tenant
    return int(tenant_id) * stride if tenant_id >= 0 else len(state.tenants) - stride


@kernel
def dominant_share(state: Any, row_id: int) -> float:
    """Return the largest share of any one resource that the tenant uses."""
    share = 0.0
    for at in range(row_id + 1, row_id + 1 + len(state.pools)):
        share = max(share, state.tenants[at].used_milli / state.tenants[at].limit_milli)
    return share


@kernel
def usage_at(tenant: Any, knobs: Any, now: int) -> float:
    """Return the decayed mean of the tenant's dominant share."""
    if now == tenant.since_us:
        return float(tenant.usage)
    kept = math.exp((tenant.since_us - now) * knobs.decay)
    return float(tenant.share + (tenant.usage - tenant.share) * kept)


@kernel
def refresh_level(tenant: Any, knobs: Any, now: int) -> None:
    """Update the tenant's level; the tenant with the lowest level is served first."""
    tenant.level = (usage_at(tenant, knobs, now) + tenant.share) / tenant.weight


@kernel
def refresh_levels(state: Any, knobs: Any, now: int) -> None:
    """Update the levels of all tenants."""
    for row_id in range(0, len(state.tenants), 1 + len(state.pools)):
        refresh_level(state.tenants[row_id], knobs, now)


@kernel
def charge(state: Any, knobs: Any, job_id: int, pool_id: int, sign: int, now: int) -> None:
    """Charge the start (sign 1) or the release (-1) of a job to its tenant."""
    row_id, milli = tenant_of(state, job_id), sign * asks_milli(state.jobs[job_id])
    tenant = state.tenants[row_id]
    if sign > 0:
        memo_of(state, job_id).start_number = state.clock[0].starts
    tenant.usage = usage_at(tenant, knobs, now)
    tenant.since_us = now
    tenant.used_milli += milli
    state.tenants[row_id + 1 + pool_id].used_milli += milli
    tenant.share = dominant_share(state, row_id)
    refresh_level(tenant, knobs, now)


@kernel
def recount(state: Any, running: int) -> None:
    """Recount what every tenant uses, and forget its usage before now.

    Args:
        state: only the accounts of tenants change.
        running: the status of a running job.
    """
    now = state.clock[0].now_us
    for row_id in range(len(state.tenants)):
        tenant = state.tenants[row_id]
        tenant.used_milli, tenant.usage, tenant.since_us = 0, 0.0, now
    for job_id in range(state.clock[0].next_job):
        run = state.runs[job_id]
        if run.status == running:
            row_id, milli = tenant_of(state, job_id), asks_milli(state.jobs[job_id])
            state.tenants[row_id].used_milli += milli
            state.tenants[row_id + 1 + run.pool].used_milli += milli
    for row_id in range(0, len(state.tenants), 1 + len(state.pools)):
        state.tenants[row_id].share = dominant_share(state, row_id)
