"""Why each job of a page waits, in a word: what `whys` says at length of one of them.

One look at the cluster as it is now serves a whole page. It is as short as a decision's
(`Table.view`), and of jobs alike only one is asked about, so that a page costs the same however
long the queue.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from flyball.control.decide.decider import Decider
from flyball.control.jobs import holds
from flyball.control.jobs.live_state import Book
from flyball.core.codes import Status
from flyball.core.jobs import Job, JobState, request_of
from flyball.core.knobs import Backfill
from flyball.core.units import US_PER_S
from flyball.schedule.explain import Names, explain_by
from flyball.schedule.explain.queue_facts import Inquiry
from flyball.twin.live import Snapshot

IN_QUEUE = "in-queue"
"""Nobody has asked why; `flyball why` does."""
MOST_ASKED = 20
"""Kinds of jobs that are asked about in one look, about a millisecond each."""
MANY = 10_000
"""A look at more jobs than this is used for `KEPT_US`, whatever happens meanwhile."""
KEPT_US = US_PER_S


class Tokens:
    """Why jobs wait, as the last look saw it."""

    def __init__(self, book: Book, decider: Decider) -> None:
        self._book, self._decider = book, decider
        self._lock = threading.Lock()
        self._look: Look | None = None

    def of(self, jobs: Iterable[Job], now_us: int) -> dict[int, str]:
        """A token for each of these jobs that waits."""
        waiting = [job for job in jobs if job.state == JobState.PENDING]
        if not waiting:
            return {}
        with self._lock:  # to ask changes the look's arrays for a moment
            look = self._fresh(now_us)
            return {job.id: look.token(job) for job in waiting}

    def _fresh(self, now_us: int) -> Look:
        look = self._look
        if look is not None:
            kept = len(look.at) > MANY and now_us - look.now_us < KEPT_US
            if kept or look.seq == self._book.seq:
                return look
        self._look = look = Look(self._book, self._decider, now_us)
        return look


class Look:
    """The cluster at an instant, after the decision that would be made then.

    Attributes:
        seq: the last event it knows of.
        now_us: when it was.
        at: where the jobs are that it holds, by id.
    """

    def __init__(self, book: Book, decider: Decider, now_us: int) -> None:
        self._book = book
        with book.lock:
            self.seq, self.now_us = book.seq, now_us
            # Two more of a kind than can start: a first in the queue and one behind it are left.
            view, ids = decider.look((), decider.most + 2)
            self._kept_back = decider.table.kept_back()
            self._jobs = [book.jobs[each] for each in ids.tolist()]
        self._status: list[int] = []
        if self._jobs:  # else all that wait do so in vain, or have just ended
            snapshot = Snapshot(decider.cluster, view, decider.knobs, now_us)
            snapshot.decide(False)
            self._ask = Inquiry(snapshot.state, decider.knobs, Names())
            self._status = snapshot.state.runs.status.tolist()
        self.at = {job.id: at for at, job in enumerate(self._jobs)}
        self._asked: dict[tuple[Any, ...], str] = {}

    def token(self, job: Job) -> str:
        """Why a job waits."""
        at = self.at.get(job.id)
        if at is not None:
            return self._token_at(at)
        if holds.is_held(job):
            return holds.token(job)
        if job.id in self._kept_back:
            return "waits-for-jobs"
        if job.spec.after:
            return "dependency-never-satisfied"  # all others that wait for jobs are looked at
        if job.spec.array_limit and self._before(job) >= job.spec.array_limit:
            return "array-limit"
        alike = self._kinds.get(request_of(job.spec))
        return IN_QUEUE if alike is None else self._token_at(alike)

    @cached_property
    def _kinds(self) -> dict[tuple[Any, ...], int]:
        """The last of each kind of jobs that waits, to speak for those that were passed over."""
        return {
            request_of(job.spec): at
            for at, job in enumerate(self._jobs)
            if not job.spec.after and self._status[at] != Status.RUNNING
        }

    def _before(self, job: Job) -> int:
        """How many tasks of its array run, or wait before it."""
        return bisect_left(self._tasks.get(job.spec.array, []), job.id)

    @cached_property
    def _tasks(self) -> dict[int, list[int]]:
        """Active tasks of arrays with a limit, by array, in order; what runs is the first."""
        found: dict[int, list[int]] = {}
        with self._book.lock:
            limited = [job for job in self._book.jobs.values() if job.spec.array_limit]
        for job in limited:
            pends = job.state == JobState.PENDING
            found.setdefault(job.spec.array, []).append(job.id if pends else 0)
        return {array: sorted(tasks) for array, tasks in found.items()}

    def _token_at(self, at: int) -> str:
        status = self._status[at]
        if status == Status.RUNNING:
            return "starts-now"
        if status == Status.HELD:
            return "waits-for-jobs" if self._ask.state.runs[at].waiting_on else "array-limit"
        is_head = at == self._ask.head
        strict = self._ask.knobs.backfill == Backfill.STRICT
        if not is_head and strict and at not in self._ask.starts_without_budget:
            return "behind-head"
        kind = request_of(self._jobs[at].spec)
        if kind not in self._asked and (is_head or len(self._asked) < MOST_ASKED):
            self._asked[kind] = explain_by(self._ask, at).token
        return self._asked.get(kind, IN_QUEUE)
