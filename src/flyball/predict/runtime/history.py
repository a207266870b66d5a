"""The history of earlier jobs by group, updated as jobs are submitted and end.

The history receives every submission and every end in order of time and describes the groups of
the next job. It cannot see the future: a job counts as finished only after `ended` was called, and
until then only its age is known (it is *censored*).
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
"""Number of latest jobs of a group that are kept one by one."""
MEMORY = (6.0, 60.0)
"""Number of jobs after which a mean has forgotten two thirds: a quick and a slow one."""
SPANS_S = (600.0, 7_200.0, 86_400.0)
"""Time spans of the three counters of submissions."""
PHASES = ((600.0, 5.0), (3_600.0, 30.0), (86_400.0, 600.0))
"""Periods at which jobs may repeat, and the width of a slot: some jobs are submitted by cron."""
BURST_S = 90.0
"""Longest gap between submissions of one burst: a sweep, a script, an array."""
MOST_GROUPS = 20_000
"""Maximum number of groups; those longest without a submission are dropped."""
PRIOR = 3.0
"""Number of jobs of a group that weigh as much as the wider group it belongs to."""

Key = tuple[str, ...]


@dataclass(slots=True)
class Seen:
    """Holds one job of the history.

    Attributes:
        start_s: when it started; infinite = it waits.
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
        """Return the log of its run time, or of the time run so far, which is a lower bound."""
        return self.log_s if self.ended else math.log1p(max(0.0, now_s - self.start_s))


@dataclass(slots=True)
class SubmitBurst:
    """Holds jobs of one group that were submitted in quick succession.

    Attributes:
        jobs: number of jobs.
        latest: the latest of them, in order of submission.
    """

    start_s: float = -math.inf
    jobs: int = 0
    latest: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))


@dataclass(slots=True)
class Group:
    """Holds statistics of jobs that share a key, such as the user.

    Attributes:
        submitted: the latest, in order of submission.
        finished: the latest, in order of their ends.
        weights, sums, squares: decaying totals of the logarithms, one for each of `MEMORY`.
        recent: decaying counts of submissions, one for each of `SPANS_S`.
        faded: decaying (by time) weight and sum of the logarithms, for each of `SPANS_S`.
        phases: the latest jobs by their time within the hour, the day, ...
        burst, before: the current or last burst, and the one before it.
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
    burst: SubmitBurst = field(default_factory=SubmitBurst)
    before: SubmitBurst = field(default_factory=SubmitBurst)
    last_submit_s: float = -math.inf
    last_end_s: float = -math.inf
    running: int = 0

    def submit(self, job: Seen) -> None:
        """Add a submitted job."""
        gap_s = job.submit_s - self.last_submit_s
        self.recent = [
            count * math.exp(-gap_s / span_s) + 1.0
            for count, span_s in zip(self.recent, SPANS_S, strict=True)
        ]
        if gap_s > BURST_S:
            self.before, self.burst = self.burst, SubmitBurst(job.submit_s)
        self.burst.jobs += 1
        self.burst.latest.append(job)
        for phase in phases_of(job.submit_s):
            self.phases.setdefault(phase, deque(maxlen=4)).append(job)
        self.last_submit_s = job.submit_s
        self.submitted.append(job)
        self.running += 1

    def end(self, job: Seen, end_s: float) -> None:
        """Add the end of a job; its `log_s` is known."""
        self.finished.append(job)
        since_s = end_s - self.last_end_s
        for index, span_s in enumerate(SPANS_S):
            fade, (weight, total) = math.exp(-since_s / span_s), self.faded[index]
            self.faded[index] = weight * fade + 1.0, total * fade + job.log_s
        self.last_end_s = end_s
        self.running = max(0, self.running - 1)
        for index, memory in enumerate(MEMORY):
            keep = 1.0 - 1.0 / memory
            self.weights[index] = self.weights[index] * keep + 1.0
            self.sums[index] = self.sums[index] * keep + job.log_s
            self.squares[index] = self.squares[index] * keep + job.log_s**2

    def mean(self, memory_index: int, wider: float) -> float:
        """Return the decaying mean of the logarithms, shrunk to the wider group's."""
        if math.isnan(wider):
            return (
                self.sums[memory_index] / self.weights[memory_index]
                if self.weights[memory_index]
                else math.nan
            )
        return (self.sums[memory_index] + PRIOR * wider) / (self.weights[memory_index] + PRIOR)

    def spread(self, memory_index: int) -> float:
        """Return the decaying standard deviation of the logarithms; NaN below two jobs."""
        if self.weights[memory_index] < 1.5:
            return math.nan
        mean = self.sums[memory_index] / self.weights[memory_index]
        return math.sqrt(
            max(0.0, self.squares[memory_index] / self.weights[memory_index] - mean**2)
        )


def phases_of(time_s: float) -> tuple[tuple[float, int], ...]:
    """Return the slot of an instant in each of the periods."""
    return tuple((period, int(time_s % period // exact)) for period, exact in PHASES)


def keys_of(asked: Asked) -> dict[str, Key | None]:
    """Return the groups of a job, widest first; None where a part of the key is not stated."""
    size = str(asked.devices)
    owner = asked.tenant, asked.user
    has_user = bool(asked.user)
    return {
        "all": (),
        "size": (size,),
        "kind": ("kind", asked.kind, size) if asked.kind else None,
        "tenant": (asked.tenant, "*") if asked.tenant else None,
        "tenant_size": (asked.tenant, "*", size) if asked.tenant else None,
        "user": (*owner, "user") if has_user else None,
        "user_size": (*owner, "user", size) if has_user else None,
        "name": (*owner, "name", asked.name) if asked.name else None,
        "name_size": (*owner, "name", asked.name, size) if asked.name else None,
    }


LEVELS = tuple(keys_of(Asked(0.0)))
EMPTY = Group()
"""Group without jobs; never written to."""


class History:
    """Holds all groups of jobs."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def groups(self, asked: Asked) -> dict[str, Group | None]:
        """Return the groups of a job as they are now; None where it states too little for one."""
        return {
            level: None if key is None else self._groups.get(key, EMPTY)
            for level, key in keys_of(asked).items()
        }

    def submitted(self, asked: Asked) -> Seen:
        """Add a submitted job; return the entry that `ended` takes later."""
        job = Seen(asked.submit_s)
        for key in keys_of(asked).values():
            if key is not None:
                group = self._groups.pop(key, None) or Group()
                self._groups[key] = group  # moved to the end: the first is the one longest unused
                group.submit(job)
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        return job

    def ended(self, run: Run, job: Seen) -> None:
        """Add the end of a job."""
        job.log_s = run.log_s
        for group in self.groups(run.asked).values():
            if group is not None and group is not EMPTY:
                group.end(job, run.end_s)

    def withdrawn(self, asked: Asked) -> None:
        """Remove a job whose run time will never be known."""
        for group in self.groups(asked).values():
            if group is not None and group is not EMPTY:
                group.running = max(0, group.running - 1)


class Step(Enum):
    """Names the events of a job."""

    SUBMIT = 0
    START = 1
    END = 2


def in_order(runs: Iterable[Run]) -> Iterator[tuple[float, Step, int, Run]]:
    """Yield the events of jobs (in order of submission) in order of time: (time, step, index, run).

    A submission comes before other events of the same instant: the job does not see them.
    """
    later: list[tuple[float, int, int, Run]] = []

    def until(now_s: float) -> Iterator[tuple[float, Step, int, Run]]:
        while later and later[0][0] < now_s:
            when_s, step, index, run = heapq.heappop(later)
            yield when_s, Step(step), index, run

    for index, run in enumerate(runs):
        yield from until(run.asked.submit_s)
        yield run.asked.submit_s, Step.SUBMIT, index, run
        heapq.heappush(later, (run.start_s, Step.START.value, index, run))
        if math.isfinite(run.end_s):
            heapq.heappush(later, (run.end_s, Step.END.value, index, run))
    yield from until(math.inf)
