"""What the state remembers of tenants and of jobs that ended: dtypes, as in `core.records`.

`tenants` counts only while the order is fair, `memos` only for the orders that need them;
`docs/concept/twin.md` has the rules.
"""

from __future__ import annotations

import numpy as np

from flyball.core.records import Records

TENANT = np.dtype(
    [
        ("quota_milli", "i8"),  # its own share of the cluster
        ("limit_milli", "i8"),  # the most it may use: the quota and what it may borrow
        ("weight", "f8"),
        ("used_milli", "i8"),  # by its running jobs
        ("share", "f8"),  # dominant share of the cluster in use now
        ("usage", "f8"),  # decayed mean of that share, until `since_us`
        ("since_us", "i8"),
        ("level", "f8"),  # within a decision: who is served first; lowest
        ("standing_milli", "i8"),  # within a round: used by jobs started before it
        ("walk_milli", "i8"),  # of that, what started no later than the victim looked at
    ],
    align=True,
)
"""Every tenant has a row of its own, then one for each resource, which are the pools' devices: how
much of it the tenant uses, and as its limit how much there is. Tenants come in the order of the
workload, at last that of jobs without a tenant."""

MEMO = np.dtype(
    [
        ("predicted_us", "f8"),  # order = history: expected work; 0 = not yet
        ("promoted_us", "f8"),  # order = attained: device time forgiven at its promotion
        ("queued_us", "i8"),  # when it last became pending
        ("start_number", "i8"),  # order = fair: its last start was the cluster's n-th
        # order = history: the rows of groups of jobs like this one
        ("alike", "i4"),  # same owner, model and devices
        ("of_owner", "i4"),  # same owner and devices
        ("of_size", "i4"),  # same devices
        ("ended", "i4"),  # of a group: how many jobs it has learned from
    ],
    align=True,
)
"""One row per job where the order needs it, else one row that nobody reads. With order = history
rows of groups follow: what is expected of the group's next job. The last is that of all jobs."""

NO_LIMIT_MILLI = 1 << 60
"""The limit of a tenant that may borrow whatever is idle."""


def own_rows(tenants: Records, pools: int) -> Records:
    """The tenants' own rows, in a cluster of so many pools."""
    rows: Records = tenants[:: 1 + pools]  # type: ignore[assignment]
    return rows
