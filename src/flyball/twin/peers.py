"""Whose history a job shares (order = history)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.accounts import MEMO
from flyball.core.grouping import group_rows
from flyball.core.knobs import Knobs, Order
from flyball.core.records import Records, records
from flyball.core.workload import Workload


def owners(workload: Workload) -> npt.NDArray[np.int64]:
    """A number for whoever a job belongs to: its user, else its tenant, else nobody (-1)."""
    return np.where(workload.user >= 0, workload.user, -2 - workload.tenant)


def blank_memos(jobs: Records, knobs: Knobs) -> Records:
    """Memos before anything happened, as many as the order needs."""
    if knobs.order == Order.HISTORY:
        return _with_peers(jobs)
    return records(len(jobs) if knobs.remembers else 1, MEMO)


def _with_peers(jobs: Records) -> Records:
    """A memo for every job, which names its groups, for every group, and for all jobs."""
    alike = group_rows(jobs.owner, jobs.model, jobs.devices)
    # The coarser groups are made of the finer ones: there are far fewer of these than jobs.
    some = jobs[alike.first]
    groups = {
        "alike": np.arange(len(alike.first)),
        "of_owner": group_rows(some["owner"], some["devices"]).of_row,
        "of_size": group_rows(some["devices"]).of_row,
    }
    sizes = [int(each.max()) + 1 for each in groups.values()]
    memos = records(len(jobs) + sum(sizes) + 1, MEMO)
    first = len(jobs)
    for (name, of_alike), size in zip(groups.items(), sizes, strict=True):
        memos[name][: len(jobs)] = first + of_alike[alike.of_row]
        first += size
    return memos
