"""How jobs scale, from their own steps before and after a change of size.

With `n` devices a step takes `a + b / n`: two sizes give both, and `b / (a + b)` is the part that
devices share. A job is measured once for each change; the next one of its owner under the same
name begins with what was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from flyball.control.ask.tuning_receipt import Steps, speed
from flyball.control.jobs.adjustments import TUNED
from flyball.control.jobs.scaling import Scaling, scaling_of
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import Event, EventKind
from flyball.core.units import US_PER_S
from flyball.learn.loads import Measured

SETTLES_S = 2.0
"""After a change, before its speed counts."""
HELD_S = 30.0
"""It must have had either size for so long ..."""
LATEST_S = 600.0
"""... and no more of the past is looked at; a job that said nothing for so long is passed over."""
WEIGHED = 4
"""Changes of the past that count at the most: a job may change its ways."""

Row = list[float]
"""Job, part that devices share, changes it was measured by."""
Owner = tuple[str, str, str, str]


class Scalings:
    """Who was measured, and what was found of whose jobs.

    Args:
        measured: series of the monitor, None = there is none.
    """

    def __init__(self, measured: Measured | None) -> None:
        self._measured = measured
        self._of: dict[Owner, Scaling] = {}
        self._done: dict[int, float] = {}  # by job, the time of its last change that is settled

    def begin(self, jobs: Iterable[Job]) -> None:
        """Remember what is on record of the latest jobs, in order of submission."""
        for job in jobs:
            self._remember(job)

    def take(self, changes: Mapping[int, Job]) -> list[Row]:
        """What is to be said of jobs that have come: what was found of others like them."""
        said: list[Row] = []
        for job in changes.values():
            self._remember(job)
            if job.state.final:
                self._done.pop(job.id, None)
            elif _is_new(job) and (known := self._of.get(_owner(job.spec))):
                said.append([job.id, *known])
        return said

    def look(self, busy: Iterable[Job], now_s: float) -> list[Row]:
        """What was found of running jobs since their last change of size."""
        if self._measured is None:
            return []
        found = ((job, self._found(job, now_s)) for job in busy if _may_tell(job))
        return [[job.id, *_average(scaling_of(job), new)] for job, new in found if new is not None]

    def _remember(self, job: Job) -> None:
        known, owner = scaling_of(job), _owner(job.spec)
        if known is not None and (job.spec.name or job.spec.model):
            self._of[owner] = known

    def _found(self, job: Job, now_s: float) -> float | None:
        """The part that devices share, None = not known, or not yet."""
        sizes = _last_two(job)
        if sizes is None or self._done.get(job.id) == sizes[1][0]:
            return None
        (before_s, before), (changed_s, after) = sizes
        if now_s - changed_s < HELD_S + SETTLES_S:
            return None
        assert self._measured is not None
        since_s = max(before_s, changed_s - LATEST_S)
        times_s, steps = self._measured(f"application.{job.id}.step", now_s - since_s + SETTLES_S)
        series = times_s.tolist(), steps.tolist()
        slow = _step_s(series, since_s, changed_s)
        fast = _step_s(series, changed_s, now_s)
        if (slow and fast) or now_s - changed_s > LATEST_S:
            self._done[job.id] = changed_s
        return shared(before, slow, after, fast) if slow and fast else None


def shared(before: int, slow_s: float, after: int, fast_s: float) -> float:
    """The part of a step that devices share, from its time with two numbers of them."""
    divided_s = (slow_s - fast_s) / (1.0 / before - 1.0 / after)
    whole_s = slow_s - divided_s / before + divided_s
    return float(np.clip(divided_s / whole_s, 0.0, 1.0)) if whole_s > 0.0 else 1.0


def _step_s(steps: Steps, since_s: float, until_s: float) -> float | None:
    """Seconds a step took, None = it was not seen for long enough."""
    if until_s - since_s < HELD_S:
        return None
    per_s = speed(steps, since_s + SETTLES_S, until_s)
    return 1.0 / per_s if per_s else None


def _last_two(job: Job) -> tuple[tuple[float, int], tuple[float, int]] | None:
    """Since when it had the size before the last, and the last, of this attempt."""
    log = job.values[TUNED]["log"]
    began_s = job.started_us / US_PER_S
    changes = [each for each in log if each["what"] == EventKind.RESIZED]
    changes = [each for each in changes if each["time"] > began_s]
    if not changes or not changes[-1]["before"] or changes[-1]["before"] == changes[-1]["after"]:
        return None
    last = changes[-1]
    before_s = changes[-2]["time"] if len(changes) > 1 else began_s
    capped = [each for each in log if each["what"] == EventKind.CAPPED and each["time"] > before_s]
    if capped:
        return None
    return (before_s, int(last["before"])), (float(last["time"]), int(last["after"]))


def _may_tell(job: Job) -> bool:
    running = job.state == JobState.RUNNING and job.started_us > 0
    return running and job.spec.elastic and TUNED in job.values


def _is_new(job: Job) -> bool:
    fresh = job.state == JobState.PENDING and not job.attempt
    return fresh and job.spec.elastic and scaling_of(job) is None


def _average(known: Scaling | None, found: float) -> tuple[float, int]:
    if known is None:
        return found, 1
    weight = min(known.changes, WEIGHED)
    return (known.parallel * weight + found) / (weight + 1), known.changes + 1


def _owner(spec: JobSpec) -> Owner:
    return spec.tenant, spec.user, spec.name, spec.model


def scaled_events(
    rows: Iterable[Sequence[float]], jobs: Mapping[int, Job], now_us: int
) -> list[Event]:
    """What was found, as the journal keeps it, of the jobs that are still there."""
    return [
        {"kind": EventKind.SCALED, "time_us": now_us, "job": int(job)}
        | {"parallel": float(parallel), "changes": int(changes)}
        for job, parallel, changes in rows
        if int(job) in jobs
    ]
