"""The mix of workload classes in a workload: shares, how sure they are, the commonest reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.grouping import group_rows
from flyball.core.workload import Floats, Ints, JobClass, Workload
from flyball.schedule.classify import Verdicts, classify_workload


def class_mix(workload: Workload, device_s: Floats) -> dict[str, dict[str, Any]]:
    """For each class with a job: shares of jobs and device time, mean confidence, a reason.

    Args:
        workload: at least one job.
        device_s: device time of each.
    """
    found = classify_workload(workload)
    total_s = max(float(device_s.sum()), 1e-300)
    mix = {}
    for kind in JobClass:
        jobs = np.flatnonzero(found.kind == kind)
        if len(jobs):
            mix[kind.label] = {
                "jobs": len(jobs) / len(workload),
                "device_time": float(device_s[jobs].sum() / total_s),
                "confidence": float(found.confidence[jobs].mean()),
                "reason": found.reason(_typical(found, jobs)),
            }
    return mix


def _typical(found: Verdicts, jobs: Ints) -> int:
    """A job whose reason stands for most: the commonest ground, of that the commonest case."""
    ground = found.decided_by[jobs]
    values, counts = np.unique(ground, return_counts=True)
    alike = jobs[ground == values[counts.argmax()]]
    columns = found.jobs
    groups = group_rows(*(
        column[alike]
        for column in (columns.model, columns.memory_mib, columns.devices, columns.milli)
    ))  # fmt: skip
    return int(alike[groups.first[np.bincount(groups.of_row).argmax()]])
