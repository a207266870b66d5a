"""Measures how elastic jobs scale, from their reported steps before and after a resize.

With `n` devices a step takes `a + b / n`: two sizes give both, and `b / (a + b)` is the parallel
part, which devices share. A job is measured once per resize; the next job of the same owner and
name starts with what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from flyball.core.job_facts import Scaling, SizeChange, Steps, scaling_of, steps_per_s
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.results import Floats

SETTLE_S = 2.0
"""Time after a resize before the job's speed counts."""
HELD_S = 30.0
"""Shortest time that the job must have had each of the two sizes."""
WINDOW_S = 600.0
"""Longest past that is measured; a job that reported nothing for so long is skipped."""
MAX_WEIGHT = 4
"""Largest weight of earlier resizes in the average, since a job may change its behaviour."""

TelemetrySeries = Callable[[str, float], tuple[Floats, Floats]]
"""Returns times and values of a series over the last seconds (`Telemetry.series`)."""
ScalingRow = list[float]
"""Job number, parallel part, number of resizes it was measured by."""
Owner = tuple[str, str, str, str]


class ScalingLearner:
    """Measures running jobs, and remembers the result by owner and name.

    Args:
        telemetry: the monitor's series; None if there is no monitor.
    """

    def __init__(self, telemetry: TelemetrySeries | None) -> None:
        self._telemetry = telemetry
        self._by_owner: dict[Owner, Scaling] = {}
        self._measured_at: dict[int, float] = {}
        """Time of the last resize that was measured or given up, by job."""

    def begin(self, jobs: Iterable[Job]) -> None:
        """Recall the recorded scalings of the latest jobs, in order of submission."""
        for job in jobs:
            self._remember(job)

    def observe(self, changes: Mapping[int, Job]) -> list[ScalingRow]:
        """Return rows for new jobs whose owner and name were measured before."""
        rows: list[ScalingRow] = []
        for job in changes.values():
            self._remember(job)
            if job.state.final:
                self._measured_at.pop(job.id, None)
            elif _is_new(job) and (scaling := self._by_owner.get(_owner(job.spec))):
                rows.append([job.id, *scaling])
        return rows

    def measure(self, resized: Iterable[SizeChange], now_s: float) -> list[ScalingRow]:
        """Return rows for running jobs that can be measured at both sizes of their last resize."""
        if self._telemetry is None:
            return []
        parts = ((change.job, self._parallel_part(change, now_s)) for change in resized)
        return [
            [job.id, *_average(scaling_of(job), part)] for job, part in parts if part is not None
        ]

    def _remember(self, job: Job) -> None:
        scaling = scaling_of(job)
        if scaling is not None and (job.spec.name or job.spec.model):
            self._by_owner[_owner(job.spec)] = scaling

    def _parallel_part(self, change: SizeChange, now_s: float) -> float | None:
        """Return the parallel part; None if it was measured already or cannot be measured yet."""
        job, changed_s = change.job, change.changed_s
        if self._measured_at.get(job.id) == changed_s or now_s - changed_s < HELD_S + SETTLE_S:
            return None
        assert self._telemetry is not None
        since_s = max(change.before_s, changed_s - WINDOW_S)
        times_s, steps = self._telemetry(f"application.{job.id}.step", now_s - since_s + SETTLE_S)
        series = times_s.tolist(), steps.tolist()
        before_s = _step_s(series, since_s, changed_s)
        after_s = _step_s(series, changed_s, now_s)
        if (before_s and after_s) or now_s - changed_s > WINDOW_S:
            self._measured_at[job.id] = changed_s
        if not (before_s and after_s):
            return None
        return parallel_part(change.before, before_s, change.after, after_s)


def parallel_part(before: int, before_step_s: float, after: int, after_step_s: float) -> float:
    """Return the part of a step that devices share, from its duration on two numbers of devices."""
    divided_s = (before_step_s - after_step_s) / (1.0 / before - 1.0 / after)
    whole_s = before_step_s - divided_s / before + divided_s
    return float(np.clip(divided_s / whole_s, 0.0, 1.0)) if whole_s > 0.0 else 1.0


def _step_s(steps: Steps, since_s: float, until_s: float) -> float | None:
    """Return the seconds per step; None if the span is too short to measure."""
    if until_s - since_s < HELD_S:
        return None
    per_s = steps_per_s(steps, since_s + SETTLE_S, until_s)
    return 1.0 / per_s if per_s else None


def _is_new(job: Job) -> bool:
    fresh = job.state == JobState.PENDING and not job.attempt
    return fresh and job.spec.elastic and scaling_of(job) is None


def _average(earlier: Scaling | None, part: float) -> Sequence[float]:
    if earlier is None:
        return part, 1
    weight = min(earlier.changes, MAX_WEIGHT)
    return (earlier.parallel * weight + part) / (weight + 1), earlier.changes + 1


def _owner(spec: JobSpec) -> Owner:
    return spec.tenant, spec.user, spec.name, spec.model
