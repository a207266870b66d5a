"""The mix of workload classes in a workload: shares, mean confidence, the commonest reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.grouping import group_rows
from flyball.core.workload import Floats, Ints, JobClass, Workload
from flyball.schedule.classify import Verdicts, classify_workload


def class_mix(workload: Workload, device_s: Floats) -> dict[str, dict[str, Any]]:
    """Return the share of jobs and device time, mean confidence and reason of each class present.

    Args:
        workload: at least one job.
        device_s: device time of each job.
    """
    verdicts = classify_workload(workload)
    total_s = max(float(device_s.sum()), 1e-300)
    mix = {}
    for kind in JobClass:
        jobs = np.flatnonzero(verdicts.kind == kind)
        if len(jobs):
            mix[kind.label] = {
                "jobs": len(jobs) / len(workload),
                "device_time": float(device_s[jobs].sum() / total_s),
                "confidence": float(verdicts.confidence[jobs].mean()),
                "reason": verdicts.reason(_typical(verdicts, jobs)),
            }
    return mix


def _typical(verdicts: Verdicts, jobs: Ints) -> int:
    """Return a job with the commonest ground for its class and, of those, the commonest shape."""
    ground = verdicts.decided_by[jobs]
    values, counts = np.unique(ground, return_counts=True)
    alike = jobs[ground == values[counts.argmax()]]
    columns = verdicts.jobs
    groups = group_rows(*(
        column[alike]
        for column in (columns.model, columns.memory_mib, columns.devices, columns.milli)
    ))  # fmt: skip
    return int(alike[groups.first[np.bincount(groups.of_row).argmax()]])
