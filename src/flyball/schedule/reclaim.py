"""Which running jobs give way with order = fair: those on borrowed devices, latest started first.

The round itself is that of `preempt`. Take a tenant's running jobs in the order of their starts:
a job is borrowed if it and those before it hold more than the quota. Going through the victims
latest first, that is what all of the tenant's jobs hold less what was passed.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import MILLI_PER_DEVICE
from flyball.physics.compile import kernel
from flyball.schedule.order import memo_of
from flyball.schedule.tenants import asks_milli, tenant_of
from flyball.schedule.victims import list_victim, sort_victims


@kernel
def list_borrowers(state: Any, now: int) -> None:
    """List the jobs started before now of the tenants that exceed their quota with them."""
    for at in range(len(state.tenants)):
        state.tenants[at].standing_milli = 0
    count = 0
    for counting in (True, False):
        for node_id in range(len(state.nodes)):
            row_id = state.nodes[node_id].first_row
            while row_id >= 0:
                job_id = state.rows[row_id].job
                run = state.runs[job_id]
                if run.first_row == row_id and run.since_us < now:
                    tenant = state.tenants[tenant_of(state, job_id)]
                    if counting:
                        tenant.standing_milli += asks_milli(state.jobs[job_id])
                    elif tenant.standing_milli > tenant.quota_milli:
                        start_number = float(memo_of(state, job_id).start_number)
                        list_victim(state, count, start_number, job_id)
                        count += 1
                row_id = state.rows[row_id].sibling
    sort_victims(state, count)


@kernel
def begin_walk(state: Any) -> None:
    """Prepare a pass over the victims with `is_borrowed`, latest started first."""
    for at in range(len(state.tenants)):
        state.tenants[at].walk_milli = state.tenants[at].standing_milli


@kernel
def is_borrowed(state: Any, victim_id: int) -> bool:
    """Return whether the tenant's jobs up to this one exceed its quota; call once per victim."""
    tenant = state.tenants[tenant_of(state, victim_id)]
    beyond = tenant.walk_milli > tenant.quota_milli
    tenant.walk_milli -= asks_milli(state.jobs[victim_id])
    return bool(beyond)


@kernel
def gives_back(state: Any, victim_id: int) -> float:
    """Record that a borrowed job is preempted; returns how far its tenant is beyond its quota."""
    tenant = state.tenants[tenant_of(state, victim_id)]
    tenant.standing_milli -= asks_milli(state.jobs[victim_id])
    return float((tenant.used_milli - tenant.quota_milli) / MILLI_PER_DEVICE)
