"""The order of jobs with order = fair: tenants within their quota first, then by lowest usage.

The tenant is part of a shape here, so all jobs of a shape share tenant, request and level, and
only the first job of each shape need be compared.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Reason
from flyball.physics.compile import kernel
from flyball.schedule.place import find
from flyball.schedule.queue import drop_first
from flyball.schedule.start import start
from flyball.schedule.tenants import asks_milli, refresh_levels, tenant_of

IN_ORDER, SKIPPED_AHEAD = int(Reason.IN_ORDER), int(Reason.SKIPPED_AHEAD)
BORROWED = int(Reason.BORROWED)


@kernel
def fairest_shape(state: Any, within_quota: bool, with_blocked: bool) -> int:
    """Return the shape whose first job is next among those that may start, or -1.

    Args:
        within_quota: skip shapes that would borrow, and those passed over in this round.
        with_blocked: include shapes that did not fit.
    """
    best, best_borrows = -1, False
    best_level, best_key, best_tie = 0.0, 0.0, 0
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        if shape.pending == 0 or (shape.blocked and not with_blocked):
            continue
        tenant = state.tenants[tenant_of(state, shape.sample)]
        used_milli = tenant.used_milli + asks_milli(shape)
        borrows = used_milli > tenant.quota_milli
        if used_milli > tenant.limit_milli or (within_quota and (borrows or shape.passed)):
            continue
        top = state.queue[shape.begin]
        first = best < 0
        if not first and borrows != best_borrows:
            first = not borrows
        elif not first and tenant.level != best_level:
            first = tenant.level < best_level
        elif not first:
            first = top.key < best_key or (top.key == best_key and top.tie < best_tie)
        if first:
            best, best_borrows = shape_id, borrows
            best_level, best_key, best_tie = tenant.level, top.key, top.tie
    return best


@kernel
def fair_reason(state: Any, shape_id: int) -> int:
    """Return why the first job of this shape starts now."""
    shape = state.shapes[shape_id]
    tenant = state.tenants[tenant_of(state, shape.sample)]
    if tenant.used_milli + asks_milli(shape) > tenant.quota_milli:
        return BORROWED
    return IN_ORDER if fairest_shape(state, False, True) == shape_id else SKIPPED_AHEAD


@kernel
def start_fairly(state: Any, knobs: Any, now: int) -> None:
    """Start jobs tenant by tenant while any job that may start fits."""
    refresh_levels(state, knobs, now)
    while True:
        shape_id = fairest_shape(state, False, False)
        if shape_id < 0:
            return
        shape = state.shapes[shape_id]
        job_id = state.queue[shape.begin].tie
        pool_id, fit, avoid = find(state, knobs, job_id, False, now)
        if pool_id >= 0:
            reason = fair_reason(state, shape_id)
            drop_first(state, shape)
            start(state, knobs, job_id, pool_id, fit, avoid, now, reason, 0.0)
        else:
            shape.blocked = 1
