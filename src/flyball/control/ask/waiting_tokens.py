"""Reason tokens of the pending jobs of a page; `explain_job` explains one of them in full.

One snapshot of the cluster serves a whole page. It is as short as a decision's (`JobColumns.view`),
and only one of several alike jobs is explained, so a page costs the same for any length of queue.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from flyball.control.decide.decider import Decider
from flyball.control.jobs import holds
from flyball.control.jobs.live_state import LiveState
from flyball.core.codes import Status
from flyball.core.jobs import Job, JobState, request_of
from flyball.core.knobs import Backfill
from flyball.core.units import US_PER_S
from flyball.schedule.explain import Names, explain_by
from flyball.schedule.explain.queue_facts import QueueFacts
from flyball.twin.live import Snapshot

IN_QUEUE = "in-queue"
"""Token of a job that was not explained; `flyball why` does."""
MAX_EXPLAINED = 20
"""Maximum number of shapes that are explained per snapshot, about a millisecond each."""
MANY_JOBS = 10_000
"""A snapshot of more jobs than this is reused for `REUSE_US`, even if the state has changed."""
REUSE_US = US_PER_S
"""How long a large snapshot is reused."""


class WaitingTokens:
    """Returns reason tokens from the latest snapshot."""

    def __init__(self, live_state: LiveState, decider: Decider) -> None:
        self._live_state, self._decider = live_state, decider
        self._lock = threading.Lock()
        self._snapshot: QueueSnapshot | None = None

    def of(self, jobs: Iterable[Job], now_us: int) -> dict[int, str]:
        """Return a token for each of these jobs that is pending."""
        waiting = [job for job in jobs if job.state == JobState.PENDING]
        if not waiting:
            return {}
        with self._lock:  # an explanation changes the snapshot's arrays for a moment
            snapshot = self._fresh(now_us)
            return {job.id: snapshot.token(job) for job in waiting}

    def _fresh(self, now_us: int) -> QueueSnapshot:
        snapshot = self._snapshot
        if snapshot is not None:
            kept = len(snapshot.at) > MANY_JOBS and now_us - snapshot.now_us < REUSE_US
            if kept or snapshot.seq == self._live_state.seq:
                return snapshot
        self._snapshot = snapshot = QueueSnapshot(self._live_state, self._decider, now_us)
        return snapshot


class QueueSnapshot:
    """Holds the cluster at one time, after the decision that would be made then.

    Attributes:
        seq: number of the last event it includes.
        now_us: its time.
        at: index of each job it holds, by id.
    """

    def __init__(self, live_state: LiveState, decider: Decider, now_us: int) -> None:
        self._live_state = live_state
        with live_state.lock:
            self.seq, self.now_us = live_state.seq, now_us
            # Two more of a shape than can start: the head of the queue and one behind it are left.
            view, ids = decider.view_with({}, decider.most + 2)
            self._kept_back = decider.columns.kept_back()
            self._unfit = set(decider.columns.unfit)
            self._jobs = [live_state.jobs[job_id] for job_id in ids.tolist()]
        self._status: list[int] = []
        if self._jobs:  # otherwise no pending job can start, or all have just ended
            snapshot = Snapshot(decider.cluster, view, decider.knobs, now_us)
            snapshot.decide(False)
            self._inquiry = QueueFacts(snapshot.state, decider.knobs, Names())
            self._status = snapshot.state.runs.status.tolist()
        self.at = {job.id: at for at, job in enumerate(self._jobs)}
        self._tokens: dict[tuple[Any, ...], str] = {}

    def token(self, job: Job) -> str:
        """Return why a job waits."""
        at = self.at.get(job.id)
        if at is not None:
            return self._token_at(at)
        if holds.is_held(job):
            return holds.token(job)
        if job.id in self._unfit:
            return "no-such-node"
        if job.id in self._kept_back:
            return "waits-for-jobs"
        if job.spec.after:
            return "dependency-never-satisfied"  # all others that wait for jobs are in the snapshot
        if job.spec.array_limit and self._before(job) >= job.spec.array_limit:
            return "array-limit"
        like = self._shapes.get(request_of(job.spec))
        return IN_QUEUE if like is None else self._token_at(like)

    @cached_property
    def _shapes(self) -> dict[tuple[Any, ...], int]:
        """Return the last pending job of each shape, which stands for those that were left out."""
        return {
            request_of(job.spec): at
            for at, job in enumerate(self._jobs)
            if not job.spec.after and self._status[at] != Status.RUNNING
        }

    def _before(self, job: Job) -> int:
        """Return how many tasks of its array run, or wait before it."""
        return bisect_left(self._tasks.get(job.spec.array, []), job.id)

    @cached_property
    def _tasks(self) -> dict[int, list[int]]:
        """Return active tasks of arrays with a limit, by array, in order, running ones first."""
        tasks_of: dict[int, list[int]] = {}
        with self._live_state.lock:
            limited = [job for job in self._live_state.jobs.values() if job.spec.array_limit]
        for job in limited:
            pends = job.state == JobState.PENDING
            tasks_of.setdefault(job.spec.array, []).append(job.id if pends else 0)
        return {array: sorted(tasks) for array, tasks in tasks_of.items()}

    def _token_at(self, at: int) -> str:
        status = self._status[at]
        if status == Status.RUNNING:
            return "starts-now"
        if status == Status.HELD:
            return "waits-for-jobs" if self._inquiry.state.runs[at].waiting_on else "array-limit"
        is_head = at == self._inquiry.head
        strict = self._inquiry.knobs.backfill == Backfill.STRICT
        if not is_head and strict and at not in self._inquiry.starts_without_budget:
            return "behind-head"
        shape = request_of(self._jobs[at].spec)
        if shape not in self._tokens and (is_head or len(self._tokens) < MAX_EXPLAINED):
            self._tokens[shape] = explain_by(self._inquiry, at).token
        return self._tokens.get(shape, IN_QUEUE)
