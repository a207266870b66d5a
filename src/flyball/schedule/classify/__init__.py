"""Which of the five workload classes a job belongs to, how sure that is, and why.

A known model is judged by what was measured and published of it (`models`), any other job
by its memory, its gang and how urgent it looks (`features`). `score` has the ranges of each
class; `docs/concept/classes.md` says the rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import NOT_STATED, Floats, Ints, JobClass, Workload
from flyball.schedule.classify.features import Jobs, grouped
from flyball.schedule.classify.reasons import reason
from flyball.schedule.classify.score import nearest

STATED = -2
"""In place of the feature that decided: the trace itself says the class."""


class Verdict(NamedTuple):
    """A class, why, and how sure that is: above 0, at most 1."""

    kind: JobClass
    reason: str
    confidence: float


@dataclass(frozen=True)
class Verdicts:
    """The classes of many jobs.

    Attributes:
        kind: a `JobClass` each.
        confidence: above 0, at most 1; 1 where the trace states the class.
        decided_by: index in `score.FEATURES`, `score.NOTHING` or `STATED`.
        jobs: what they were judged by.
    """

    kind: Ints
    confidence: Floats
    decided_by: Ints
    jobs: Jobs

    def reason(self, job: int) -> str:
        """Why a job has its class, in one sentence with the numbers that decided."""
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
    """The class of one job, the reason for it and how sure it is.

    Args:
        memory_mib: per device, 0 = not stated.
        devices: gang size.
        milli: thousandths of each device.
        duration_estimate_us: expected run time, NaN = not stated.
        model: as in the job's description, None = not stated.
        priority: above 0 = favoured.
    """
    code, names = (NOT_STATED, ()) if model is None else (0, (model,))
    found = judge(memory_mib, devices, milli, duration_estimate_us, code, names, priority)
    return Verdict(JobClass(int(found.kind[0])), found.reason(0), float(found.confidence[0]))


def classify(
    memory_mib: npt.ArrayLike,
    devices: npt.ArrayLike,
    milli: npt.ArrayLike,
    duration_estimate_us: npt.ArrayLike,
    model: npt.ArrayLike,
    models: tuple[str, ...] = (),
    priority: npt.ArrayLike = 0.0,
) -> Ints:
    """One `JobClass` a job, by column; see `judge`."""
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
    """The classes of many jobs, by column; the same rule as `classify_one`.

    Args:
        memory_mib, devices, milli, duration_estimate_us, priority: as for one job; a scalar
            stands for the same value in every row.
        model: indices in `models`, negative = not stated.
        models: names of models.
    """
    jobs = Jobs.of(memory_mib, devices, milli, duration_estimate_us, priority, model, models)
    if not len(jobs.model):
        none = np.zeros(0, np.int64)
        return Verdicts(none, np.zeros(0), none, jobs)
    groups, features = grouped(jobs)
    found = nearest(features)
    of_job = groups.of_row
    return Verdicts(found.kind[of_job], found.confidence[of_job], found.decided_by[of_job], jobs)


def classify_workload(workload: Workload) -> Verdicts:
    """The classes of a workload's jobs; what the trace states is left as it is."""
    w = workload
    found = judge(w.memory_mib, w.devices, w.milli, w.estimate_us, w.model, w.models, w.priority)
    stated = w.kind >= 0
    return Verdicts(
        np.where(stated, w.kind, found.kind),
        np.where(stated, 1.0, found.confidence),
        np.where(stated, STATED, found.decided_by),
        found.jobs,
    )
