"""Events, live states and journals for the tests of the journal."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.until import WAIT_S

from flyball.control.jobs.live_state import LiveState
from flyball.control.journal.history import History
from flyball.control.journal.store import Changes, Journal, OnCommit
from flyball.core.events import (
    CancelRequested,
    Decided,
    Ended,
    Event,
    Intended,
    Requeued,
    Started,
    Submitted,
)
from flyball.core.jobs import Job, JobSpec

START_US = 1_700_000_000_000_000


def spec(**values: Any) -> JobSpec:
    """Return a typical spec."""
    about: dict[str, Any] = {
        "argv": ("python", "train.py", "--epochs", "20", "--lr", "0.1"),
        "name": "train",
        "cwd": "/home/ada/project",
        "env": {"DATA": "/data/images", "SEED": "7"},
        "user": "ada",
        "tenant": "vision",
        "cpus": 2,
        "limit_s": 3600.0,
    }
    return JobSpec(**{**about, **values})


def submitted(job: int, time_us: int = START_US, **values: Any) -> Submitted:
    """Return the event of a submission."""
    return Submitted(time_us, job, json.loads(json.dumps(spec(**values).as_dict())))


def intended(job: int, attempt: int = 1, time_us: int = START_US + 1) -> Intended:
    """Return the event that intends an attempt."""
    return Intended(time_us, job, attempt, [[0, 3]], decision=1)


def started(job: int, attempt: int = 1, time_us: int = START_US + 2) -> Started:
    """Return the event of an attempt's start."""
    return Started(time_us, job, attempt, began_us=time_us, pid=4711)


def ended(job: int, attempt: int = 1, time_us: int = START_US + 3, **values: Any) -> Ended:
    """Return the event of a job's end."""
    figures = {"exit_code": 0, "cpu_s": 1.5, "max_rss_mib": 812}
    return replace(Ended(time_us, job, attempt, time_us, "COMPLETED", values=figures), **values)


def requeued(job: int, attempt: int = 1, time_us: int = START_US + 3, **values: Any) -> Requeued:
    """Return the event of an attempt's end after which the job is pending again."""
    return replace(Requeued(time_us, job, attempt, time_us, "preempt"), **values)


def cancelled(job: int, time_us: int = START_US + 3) -> CancelRequested:
    """Return the event of a cancellation."""
    return CancelRequested(time_us, job)


def decided(number: int, seen: int = 0, time_us: int = START_US, actions: int = 2) -> Decided:
    """Return the event of a decision with a plan."""
    plan = [[0, job, 0, 3, 1000, 0, 0.0] for job in range(1, actions + 1)]
    return Decided(time_us, number, seen, 0, False, "5f" * 16, plan)


class Kept:
    """Holds a journal, the live state that follows it, and all committed events, in order.

    Attributes:
        on_commit: called at every commit; tests may replace it.
    """

    def __init__(self, path: Path, inline: bool = True) -> None:
        self.live_state = LiveState()
        self.told: list[tuple[int, Event]] = []
        self.on_commit: OnCommit = self.follow
        self.journal = Journal(path, self.live_state.fold, self._committed, inline)
        seq, _, _ = self.journal.last()
        self.live_state.load(seq, self.journal.active(), self.journal.final_states(), set())

    def _committed(self, seq: int, committed: Sequence[Event], changes: Changes) -> None:
        self.on_commit(seq, committed, changes)

    def follow(self, seq: int, committed: Sequence[Event], changes: Changes) -> None:
        """Do what the control plane does at every commit."""
        self.told += enumerate(committed, seq - len(committed) + 1)
        self.live_state.absorb(seq, changes, committed)


def everything(history: History) -> list[tuple[int, Event]]:
    """Return all events, read page by page."""
    events: list[tuple[int, Event]] = []
    while page := history.events(events[-1][0] if events else 0, limit=500):
        events += page
    return events


def every_job(history: History) -> dict[int, Job]:
    """Return the table of current states, by id."""
    return {job.id: job for job in history.every_job()}


def folded(events: Sequence[tuple[int, Event]]) -> dict[int, Job]:
    """Return the jobs folded from the events alone."""
    live_state, jobs = LiveState(), dict[int, Job]()
    for seq, event in events:
        changes = live_state.fold([event])
        live_state.absorb(seq, changes, [event])
        jobs |= changes
    return jobs


def life(seed: int, first_job: int = 1) -> Iterator[list[Event]]:
    """Yield random lives of jobs without end, as appends of one to four events."""
    draw = random.Random(seed)
    time_us, job, number = START_US, first_job, first_job
    alive: dict[int, tuple[str, int]] = {}
    while True:
        events: list[Event] = []
        for _ in range(draw.randint(1, 4)):
            time_us += draw.randint(0, 5_000_000)
            if not alive or draw.random() < 0.3:
                events.append(submitted(job, time_us, cpus=draw.randint(1, 8)))
                alive[job] = ("PENDING", 0)
                job += 1
                continue
            which = draw.choice(list(alive))
            state, attempt = alive[which]
            if draw.random() < 0.05:
                events.append(cancelled(which, time_us))
            elif state == "PENDING":
                number += 1
                events.append(decided(number, 0, time_us))
                events.append(intended(which, attempt + 1, time_us))
                alive[which] = ("RUNNING", attempt + 1)
            elif draw.random() < 0.3:
                events.append(requeued(which, attempt, time_us))
                alive[which] = ("PENDING", attempt)
            else:
                events += [started(which, attempt, time_us), ended(which, attempt, time_us + 9)]
                del alive[which]
        yield events


class Gate:
    """Blocks the writer in its fold until it is opened."""

    def __init__(self, path: Path, on_commit: OnCommit | None = None) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.journal = Journal(path, self.fold, on_commit)

    def fold(self, events: Sequence[Event]) -> Changes:
        self.entered.set()
        assert self.opened.wait(WAIT_S)
        return {}
