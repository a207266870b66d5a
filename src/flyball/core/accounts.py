"""Records that the state keeps about tenants and about ended jobs: dtypes, as in `core.records`.

`tenants` is used only with order = fair, `memos` only with the orders that need them;
`docs/concept/twin.md` has the rules.
"""

from __future__ import annotations

import numpy as np

from flyball.core.records import Records

TENANT = np.dtype(
    [
        ("quota_milli", "i8"),  # its guaranteed part of the cluster
        ("limit_milli", "i8"),  # the most it may use: the quota plus what it may borrow
        ("weight", "f8"),
        ("used_milli", "i8"),  # by its running jobs
        ("share", "f8"),  # dominant share of the cluster in use now
        ("usage", "f8"),  # decayed mean of that share, until `since_us`
        ("since_us", "i8"),
        ("level", "f8"),  # within a decision: the tenant with the lowest level is served first
        ("standing_milli", "i8"),  # within a round: used by jobs started before it
        ("walk_milli", "i8"),  # of that, what started no later than the current victim
    ],
    align=True,
)
"""Every tenant has one row for itself, then one per resource (a pool's devices): how much of it the
tenant uses, and as the limit how much there is. Tenants come in the order of the workload; the
tenant of jobs without one comes last."""

MEMO = np.dtype(
    [
        ("predicted_us", "f8"),  # order = history: expected work; 0 = not yet
        ("promoted_us", "f8"),  # order = attained: device time forgiven at its promotion
        ("queued_us", "i8"),  # when it last became pending
        ("start_number", "i8"),  # order = fair: number of its last start, counted over the cluster
        # order = history: rows of the groups that this job belongs to
        ("alike", "i4"),  # same owner, model and devices
        ("of_owner", "i4"),  # same owner and devices
        ("of_size", "i4"),  # same devices
        ("ended", "i4"),  # in the row of a group: how many jobs it has learned from
    ],
    align=True,
)
"""One row per job where the order needs it, else a single unused row. With order = history the rows
of groups follow: what is expected of the group's next job. The last row is the group of all jobs.
"""

NO_LIMIT_MILLI = 1 << 60
"""Limit of a tenant that may borrow all idle devices."""


def own_rows(tenants: Records, pools: int) -> Records:
    """Return the tenants' first rows, without those of the `pools` resources."""
    rows: Records = tenants[:: 1 + pools]  # type: ignore[assignment]
    return rows
