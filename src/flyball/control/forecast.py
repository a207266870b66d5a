"""When will it start, and what would change that? Asked of the twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flyball.control.book import Book
from flyball.control.decider import Decider
from flyball.control.durations import Durations
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import EventKind
from flyball.core.units import US_PER_S
from flyball.twin.lookahead import start_times

ROLLOUTS = 24
MOST_JOBS = 5_000
"""With more active jobs than this fewer roll-outs are made."""


@dataclass(frozen=True)
class StartTime:
    """Seconds from now until a job starts: half the roll-outs are earlier than `p50_s`."""

    p50_s: float
    p90_s: float
    method: str


class Forecaster:
    """Start times of pending jobs, of jobs not submitted yet, and of jobs that ask for less."""

    def __init__(self, book: Book, decider: Decider, durations: Durations) -> None:
        self._book, self._decider, self._durations = book, decider, durations

    def starts(self, now_us: int) -> dict[int, StartTime]:
        """Of every active job."""
        return self._roll_out((), now_us)

    def if_submitted(self, spec: JobSpec, now_us: int) -> StartTime | None:
        """Of a job that might be submitted now; None if it would never start."""
        with self._book.lock:
            job_id = max([0, *self._book.jobs, *self._book.ended]) + 1
        made = {"kind": EventKind.SUBMITTED, "time_us": now_us, "job": job_id}
        return self._roll_out(({**made, "spec": spec.as_dict()},), now_us).get(job_id)

    def if_changed(self, job: Job, changes: Mapping[str, Any], now_us: int) -> StartTime | None:
        """Of a pending job if it had asked for something else."""
        spec = replace(job.spec, **changes)
        gone = {"kind": EventKind.CANCEL, "time_us": now_us, "job": job.id}
        with self._book.lock:
            job_id = max([0, *self._book.jobs, *self._book.ended]) + 1
        made = {"kind": EventKind.SUBMITTED, "time_us": job.submit_us, "job": job_id}
        events = (gone, {**made, "spec": spec.as_dict()})
        return self._roll_out(events, now_us).get(job_id)

    def _roll_out(self, own: tuple[Any, ...], now_us: int) -> dict[int, StartTime]:
        with self._book.lock:
            view, ids = self._decider.look(own)
            jobs = {**self._book.jobs, **self._book.fold(own)}
        if not len(ids):
            return {}
        count = max(4, min(ROLLOUTS, ROLLOUTS * MOST_JOBS // len(ids)))
        draws, methods = np.empty((count, len(ids))), {}
        for at, job_id in enumerate(ids.tolist()):
            job = jobs[job_id]
            guess = self._durations.guess(job.spec, _elapsed_s(job, now_us), count, (job_id,))
            draws[:, at] = guess.seconds * US_PER_S
            methods[job_id] = guess.method
        starts = start_times(self._decider.cluster, view, self._decider.knobs, now_us, draws)
        found = {}
        for at, job_id in enumerate(ids.tolist()):
            known = starts[:, at][~np.isnan(starts[:, at])]
            if len(known):
                p50, p90 = np.percentile(known, [50, 90])
                found[job_id] = StartTime(float(p50), float(p90), methods[job_id])
        return found


def _elapsed_s(job: Job, now_us: int) -> float:
    if job.state == JobState.PENDING:
        return 0.0
    return max(0.0, (now_us - (job.started_us or job.since_us)) / US_PER_S)
