"""Whose history a job shares (order = history)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.accounts import HISTORY
from flyball.core.grouping import group_rows
from flyball.core.state import Records, records
from flyball.core.workload import Workload


def owners(workload: Workload) -> npt.NDArray[np.int64]:
    """A number for whoever a job belongs to: its user, else its tenant, else nobody (-1)."""
    return np.where(workload.user >= 0, workload.user, -2 - workload.tenant)


def find_peers(jobs: Records, memos: Records) -> Records:
    """Write every job's peers into its memo.

    Returns:
        A history of nothing yet: row 0 for all jobs, then one for every group.
    """
    alike = group_rows(jobs.owner, jobs.model, jobs.devices)
    # The coarser groups are made of the finer ones: there are far fewer of these than jobs.
    some = jobs[alike.first]
    groups = {
        "alike": np.arange(len(alike.first)),
        "of_owner": group_rows(some["owner"], some["devices"]).of_row,
        "of_size": group_rows(some["devices"]).of_row,
    }
    first = 1
    for name, of_alike in groups.items():
        memos[name] = first + of_alike[alike.of_row]
        first += int(of_alike.max()) + 1
    return records(first, HISTORY)
