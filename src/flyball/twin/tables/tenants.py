"""Tenants: checks of a cluster's list, and the accounts that the kernel keeps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.accounts import NO_LIMIT_MILLI, TENANT, own_rows
from flyball.core.cluster import OTHERS, Cluster, Tenant
from flyball.core.errors import BadInput, at
from flyball.core.records import Records, records
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import Workload
from flyball.physics.catalogue import DEVICE, unit_of


def check_tenants(cluster: Cluster, where: str) -> None:
    """Refuse tenants whose quotas cannot all be met.

    Args:
        cluster: the cluster with the tenants.
        where: where it is defined, for messages.

    Raises:
        BadInput: two tenants of one name, or quotas that exceed the cluster's devices.
    """
    seen: set[str] = set()
    for tenant in cluster.tenants:
        if tenant.name in seen:
            raise BadInput(
                f"{where}: two tenants are named {tenant.name!r}", "give each its own name"
            )
        seen.add(tenant.name)
    promised = sum(tenant.quota for tenant in cluster.tenants)
    if promised > cluster.device_count:
        raise BadInput(
            f"{where}: the tenants' quotas sum to {promised} {unit_of(cluster.groups)}s "
            f"and the cluster has {cluster.device_count}",
            "lower some; what a tenant leaves idle others may borrow",
        )


def tenant_table(cluster: Cluster, workload: Workload, start_us: int) -> Records:
    """Return the accounts of every tenant of the workload, then of jobs without a tenant.

    Raises:
        BadInput: see `check_tenants`.
    """
    check_tenants(cluster, cluster.name)
    codes = max(len(workload.tenants), int(workload.tenant.max()) + 1)
    table = records((codes + 1) * (1 + len(cluster.groups)), TENANT)
    table.since_us = start_us
    for first, group in enumerate(cluster.groups, 1):
        of_pool = slice(first, None, 1 + len(cluster.groups))
        table.limit_milli[of_pool] = MILLI_PER_DEVICE * group.count * group.devices
    totals = own_rows(table, len(cluster.groups))
    totals.limit_milli, totals.weight = NO_LIMIT_MILLI, 1.0
    if cluster.tenants:
        names = [*workload.tenants, *[""] * (codes - len(workload.tenants)), OTHERS]
        _fill_listed(totals, names, cluster.tenants)
    else:
        present = np.flatnonzero(np.bincount(rows_of(workload.tenant, len(totals))))
        totals.quota_milli[present] = MILLI_PER_DEVICE * cluster.device_count // len(present)
    return table


def _fill_listed(totals: Records, names: list[str], tenants: tuple[Tenant, ...]) -> None:
    """Set the quota, weight and limit of the tenants that the cluster lists."""
    listed = {tenant.name: tenant for tenant in tenants}
    for row, name in enumerate(names):
        if name in listed:
            tenant = listed[name]
            totals.quota_milli[row] = MILLI_PER_DEVICE * tenant.quota
            totals.weight[row] = tenant.weight
            if tenant.borrow is not None:
                totals.limit_milli[row] = MILLI_PER_DEVICE * (tenant.quota + tenant.borrow)


def rows_of(tenant: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """Return the row of each job's tenant among the `rows` accounts; the last is for none."""
    return np.where(tenant < 0, rows - 1, tenant)


def refuse_beyond_limit(
    tenants: Records, jobs: Records, workload: Workload | None = None, unit: str = DEVICE
) -> None:
    """Refuse a job that its tenant's limit would never let start.

    Args:
        tenants: the row of each tenant for all pools together.
        jobs: as in the state.
        workload: to name the job and its tenant by; None = by number.
        unit: what users call a device.

    Raises:
        BadInput: there is such a job.
    """
    row = rows_of(jobs.tenant.astype(np.int64), len(tenants))
    asks_milli = jobs.devices.astype(np.int64) * jobs.milli
    bad = np.flatnonzero(asks_milli > tenants.limit_milli[row])
    if not len(bad):
        return
    job = int(bad[0])
    name, tenant = f"job #{job}", f"tenant #{row[job]}"
    if workload is not None:
        line = int(workload.row[job])
        where = at(workload.name, line if line >= 0 else None)
        name = f"{where}: job {workload.ids[job]!s}"
        tenant = f"tenant {tenant_name(workload.tenants, int(row[job]))}"
    most = int(tenants.limit_milli[row[job]]) / MILLI_PER_DEVICE
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    asks = int(asks_milli[job]) / MILLI_PER_DEVICE
    raise BadInput(
        f"{name} asks for {asks:g} {unit}{'s' * (asks != 1)} and {tenant} may use "
        f"{most:g} at most{more}",
        "raise its quota or what it may borrow, or drop the job",
    )


def tenant_name(names: tuple[str, ...], row: int) -> str:
    """Return the user-facing name of the tenant of this row."""
    return names[row] if row < len(names) else OTHERS
