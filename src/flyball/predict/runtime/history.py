"""What is known of earlier jobs at an instant, by group, kept up as jobs come and go.

The history is told of every submission and every end in order of time and answers for the job
about to be submitted. It cannot look ahead: a job counts as finished only after `ended` was
called, and until then all that is known of it is how long ago it came (it is *censored*).
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from flyball.predict.runtime.rows import Asked, Run

KEPT = 24
"""Latest jobs of a group that are looked at one by one."""
MEMORY = (6.0, 60.0)
"""Jobs after which a mean has forgotten two thirds of what it was: a quick and a slow one."""
SPANS_S = (600.0, 7_200.0, 86_400.0)
"""Spans of the three counters of submissions."""
PHASES = ((600.0, 5.0), (3_600.0, 30.0), (86_400.0, 600.0))
"""Periods at which jobs may come again, and how exactly: some are sent by a clock."""
BURST_S = 90.0
"""Jobs that follow each other within this time are of one burst: a sweep, a script, an array."""
MOST_GROUPS = 20_000
"""Groups that are remembered; those longest without a submission are forgotten."""
PRIOR = 3.0
"""Jobs of a group that weigh as much as the wider group it belongs to."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Seen:
    """A job of the history.

    Attributes:
        start_s: when it began; infinite = it waits.
        log_s: logarithm of its run time; NaN while it has not ended.
    """

    submit_s: float
    start_s: float = math.inf
    log_s: float = math.nan

    @property
    def ended(self) -> bool:
        """Whether its run time is known."""
        return self.log_s == self.log_s

    def bound(self, now_s: float) -> float:
        """Logarithm of its run time, or of the time it has run so far, which is a lower bound."""
        return self.log_s if self.ended else math.log1p(max(0.0, now_s - self.start_s))


@dataclass(slots=True)
class Burst:
    """Jobs of one group that came one right after the other.

    Attributes:
        jobs: how many.
        latest: the latest of them, in order of submission.
    """

    start_s: float = -math.inf
    jobs: int = 0
    latest: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))


@dataclass(slots=True)
class Group:
    """Jobs that have something in common.

    Attributes:
        submitted: the latest, in order of submission.
        finished: the latest, in order of their ends.
        weights, sums, squares: decaying totals of the logarithms, one for each of `MEMORY`.
        recent: decaying counts of submissions, one for each of `SPANS_S`.
        faded: decaying (by time) weight and sum of the logarithms, for each of `SPANS_S`.
        phases: the latest jobs by when in the hour, the day, ... they come.
        burst, before: the burst that goes on or was the last, and the one before it.
        running: jobs that have not ended.
    """

    submitted: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    finished: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    weights: list[float] = field(default_factory=lambda: [0.0] * len(MEMORY))
    sums: list[float] = field(default_factory=lambda: [0.0] * len(MEMORY))
    squares: list[float] = field(default_factory=lambda: [0.0] * len(MEMORY))
    recent: list[float] = field(default_factory=lambda: [0.0] * len(SPANS_S))
    faded: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)] * len(SPANS_S))
    phases: dict[tuple[float, int], deque[Seen]] = field(default_factory=dict)
    burst: Burst = field(default_factory=Burst)
    before: Burst = field(default_factory=Burst)
    last_submit_s: float = -math.inf
    last_end_s: float = -math.inf
    running: int = 0

    def submit(self, job: Seen) -> None:
        """One more job, and how busy the group has been."""
        gap_s = job.submit_s - self.last_submit_s
        self.recent = [
            count * math.exp(-gap_s / span_s) + 1.0
            for count, span_s in zip(self.recent, SPANS_S, strict=True)
        ]
        if gap_s > BURST_S:
            self.before, self.burst = self.burst, Burst(job.submit_s)
        self.burst.jobs += 1
        self.burst.latest.append(job)
        for phase in phases_of(job.submit_s):
            self.phases.setdefault(phase, deque(maxlen=4)).append(job)
        self.last_submit_s = job.submit_s
        self.submitted.append(job)
        self.running += 1

    def end(self, job: Seen, end_s: float) -> None:
        """One of them has ended; its `log_s` is known."""
        self.finished.append(job)
        since_s = end_s - self.last_end_s
        for at, span_s in enumerate(SPANS_S):
            fade, (weight, total) = math.exp(-since_s / span_s), self.faded[at]
            self.faded[at] = weight * fade + 1.0, total * fade + job.log_s
        self.last_end_s = end_s
        self.running = max(0, self.running - 1)
        for at, memory in enumerate(MEMORY):
            keep = 1.0 - 1.0 / memory
            self.weights[at] = self.weights[at] * keep + 1.0
            self.sums[at] = self.sums[at] * keep + job.log_s
            self.squares[at] = self.squares[at] * keep + job.log_s**2

    def mean(self, at: int, wider: float) -> float:
        """Decaying mean of the logarithms, drawn towards the wider group's while jobs are few."""
        if math.isnan(wider):
            return self.sums[at] / self.weights[at] if self.weights[at] else math.nan
        return (self.sums[at] + PRIOR * wider) / (self.weights[at] + PRIOR)

    def spread(self, at: int) -> float:
        """Standard deviation of the same; NaN below two jobs."""
        if self.weights[at] < 1.5:
            return math.nan
        mean = self.sums[at] / self.weights[at]
        return math.sqrt(max(0.0, self.squares[at] / self.weights[at] - mean**2))


def phases_of(time_s: float) -> tuple[tuple[float, int], ...]:
    """When in each of the periods an instant is."""
    return tuple((period, int(time_s % period // exact)) for period, exact in PHASES)


def keys_of(asked: Asked) -> dict[str, Key | None]:
    """The groups a job belongs to, widest first; None where a part of the key is not stated."""
    size = str(asked.devices)
    own = asked.tenant, asked.user
    known = bool(asked.user)
    return {
        "all": (),
        "size": (size,),
        "kind": ("kind", asked.kind, size) if asked.kind else None,
        "tenant": (asked.tenant, "*") if asked.tenant else None,
        "tenant_size": (asked.tenant, "*", size) if asked.tenant else None,
        "user": (*own, "user") if known else None,
        "user_size": (*own, "user", size) if known else None,
        "name": (*own, "name", asked.name) if asked.name else None,
        "name_size": (*own, "name", asked.name, size) if asked.name else None,
    }


LEVELS = tuple(keys_of(Asked(0.0)))
EMPTY = Group()
"""What is known of a group nobody has been in; never written to."""


class History:
    """All groups, and who is in which."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def groups(self, asked: Asked) -> dict[str, Group | None]:
        """The groups of a job as they are now; None where it states too little to be in one."""
        return {
            level: None if key is None else self._groups.get(key, EMPTY)
            for level, key in keys_of(asked).items()
        }

    def submitted(self, asked: Asked) -> Seen:
        """A job has come; the answer is what `ended` wants later."""
        job = Seen(asked.submit_s)
        for key in keys_of(asked).values():
            if key is not None:
                group = self._groups.pop(key, None) or Group()
                self._groups[key] = group  # at the end: the first is the one longest unused
                group.submit(job)
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        return job

    def ended(self, run: Run, job: Seen) -> None:
        """It has ended."""
        job.log_s = run.log_s
        for group in self.groups(run.asked).values():
            if group is not None and group is not EMPTY:
                group.end(job, run.end_s)

    def withdrawn(self, asked: Asked) -> None:
        """It is gone, and its run time will never be known."""
        for group in self.groups(asked).values():
            if group is not None and group is not EMPTY:
                group.running = max(0, group.running - 1)


class Step(Enum):
    """What happens to a job."""

    SUBMIT = 0
    START = 1
    END = 2


def in_order(runs: Iterable[Run]) -> Iterator[tuple[float, Step, int, Run]]:
    """What happens to jobs (in order of submission) in order of time: (when, what, place, run).

    A submission comes before anything else of the same instant: the job does not see it.
    """
    later: list[tuple[float, int, int, Run]] = []

    def until(now_s: float) -> Iterator[tuple[float, Step, int, Run]]:
        while later and later[0][0] < now_s:
            when_s, step, place, run = heapq.heappop(later)
            yield when_s, Step(step), place, run

    for at, run in enumerate(runs):
        yield from until(run.asked.submit_s)
        yield run.asked.submit_s, Step.SUBMIT, at, run
        heapq.heappush(later, (run.start_s, Step.START.value, at, run))
        if math.isfinite(run.end_s):
            heapq.heappush(later, (run.end_s, Step.END.value, at, run))
    yield from until(math.inf)
