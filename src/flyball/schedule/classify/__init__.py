"""Assigns a job to one of the five workload classes, with a confidence and a reason.

A known model is classified by what was measured and published of it (`models`), any other job
by its memory, its gang size and signs of urgency (`features`). `score` has the ranges of each
class; `docs/concept/classes.md` states the rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import NOT_STATED, Floats, Ints, JobClass, Workload
from flyball.schedule.classify.features import JobColumns, grouped
from flyball.schedule.classify.reasons import reason
from flyball.schedule.classify.score import nearest

STATED = -2
"""Value of `decided_by` if the trace itself states the class."""


class Verdict(NamedTuple):
    """Holds a class, the reason for it and a confidence above 0 and at most 1."""

    kind: JobClass
    reason: str
    confidence: float


@dataclass(frozen=True)
class Verdicts:
    """Holds the classes of many jobs.

    Attributes:
        kind: the `JobClass` of each job.
        confidence: above 0, at most 1; 1 where the trace states the class.
        decided_by: index in `score.FEATURES`, `score.NOTHING` or `STATED`.
        jobs: the columns they were classified by.
    """

    kind: Ints
    confidence: Floats
    decided_by: Ints
    jobs: JobColumns

    def reason(self, job: int) -> str:
        """Return why a job has its class, in one sentence with the numbers that decided."""
        if self.decided_by[job] == STATED:
            return "stated in the trace"
        return reason(JobClass(int(self.kind[job])), int(self.decided_by[job]), self.jobs, job)


def classify_one(
    memory_mib: int = 0,
    devices: int = 1,
    milli: int = MILLI_PER_DEVICE,
    duration_estimate_us: float = math.nan,
    model: str | None = None,
    priority: float = 0.0,
) -> Verdict:
    """Return the class of one job, the reason for it and the confidence.

    Args:
        memory_mib: per device, 0 = not stated.
        devices: gang size.
        milli: thousandths of each device.
        duration_estimate_us: expected run time, NaN = not stated.
        model: the name in the job's description, None = not stated.
        priority: above 0 = favoured.
    """
    code, names = (NOT_STATED, ()) if model is None else (0, (model,))
    verdicts = judge(memory_mib, devices, milli, duration_estimate_us, code, names, priority)
    return Verdict(
        JobClass(int(verdicts.kind[0])), verdicts.reason(0), float(verdicts.confidence[0])
    )


def classify(
    memory_mib: npt.ArrayLike,
    devices: npt.ArrayLike,
    milli: npt.ArrayLike,
    duration_estimate_us: npt.ArrayLike,
    model: npt.ArrayLike,
    models: tuple[str, ...] = (),
    priority: npt.ArrayLike = 0.0,
) -> Ints:
    """Return the `JobClass` of each job of these columns; see `judge`."""
    return judge(memory_mib, devices, milli, duration_estimate_us, model, models, priority).kind


def judge(
    memory_mib: npt.ArrayLike,
    devices: npt.ArrayLike,
    milli: npt.ArrayLike,
    duration_estimate_us: npt.ArrayLike,
    model: npt.ArrayLike,
    models: tuple[str, ...] = (),
    priority: npt.ArrayLike = 0.0,
) -> Verdicts:
    """Classify many jobs given as columns, by the same rule as `classify_one`.

    Args:
        memory_mib, devices, milli, duration_estimate_us, priority: as for one job; a scalar
            stands for the same value in every row.
        model: indices in `models`, negative = not stated.
        models: names of models.
    """
    jobs = JobColumns.of(memory_mib, devices, milli, duration_estimate_us, priority, model, models)
    if not len(jobs.model):
        none = np.zeros(0, np.int64)
        return Verdicts(none, np.zeros(0), none, jobs)
    groups, features = grouped(jobs)
    scores = nearest(features)
    of_job = groups.of_row
    return Verdicts(scores.kind[of_job], scores.confidence[of_job], scores.decided_by[of_job], jobs)


def classify_workload(workload: Workload) -> Verdicts:
    """Classify a workload's jobs; classes that the trace states are kept."""
    w = workload
    verdicts = judge(w.memory_mib, w.devices, w.milli, w.estimate_us, w.model, w.models, w.priority)
    stated = w.kind >= 0
    return Verdicts(
        np.where(stated, w.kind, verdicts.kind),
        np.where(stated, 1.0, verdicts.confidence),
        np.where(stated, STATED, verdicts.decided_by),
        verdicts.jobs,
    )
