"""Groups of jobs that share a history (order = history)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flyball.core.accounts import MEMO
from flyball.core.grouping import group_rows
from flyball.core.knobs import Knobs, Order
from flyball.core.records import Records, records
from flyball.core.workload import Workload


def owners(workload: Workload) -> npt.NDArray[np.int64]:
    """Return a number for the owner of each job: its user, else its tenant, else none (-1)."""
    return np.where(workload.user >= 0, workload.user, -2 - workload.tenant)


def blank_memos(jobs: Records, knobs: Knobs) -> Records:
    """Return the initial memos, as many as the order needs."""
    if knobs.order == Order.HISTORY:
        return _with_peers(jobs)
    return records(len(jobs) if knobs.remembers else 1, MEMO)


def _with_peers(jobs: Records) -> Records:
    """Return memos for every job (which name its groups), every group, and all jobs together."""
    alike = group_rows(jobs.owner, jobs.model, jobs.devices)
    # Coarser groups are built from the finer ones, of which there are far fewer than jobs.
    samples = jobs[alike.first]
    groups = {
        "alike": np.arange(len(alike.first)),
        "of_owner": group_rows(samples["owner"], samples["devices"]).of_row,
        "of_size": group_rows(samples["devices"]).of_row,
    }
    sizes = [int(numbers.max()) + 1 for numbers in groups.values()]
    memos = records(len(jobs) + sum(sizes) + 1, MEMO)
    first = len(jobs)
    for (name, of_alike), size in zip(groups.items(), sizes, strict=True):
        memos[name][: len(jobs)] = first + of_alike[alike.of_row]
        first += size
    return memos
