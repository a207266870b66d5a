"""The protocols between the parts, all structural. Time is in seconds since the clock's origin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from flyball.core.job_facts import RunTime, SizeChange
from flyball.core.jobs import Job, JobSpec
from flyball.core.live import Action, Event, LiveNode, Report
from flyball.core.live import Receipt as Receipt
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State

Message = dict[str, Any]
"""What the worker process sends to the control plane, as JSON."""


class Sample(NamedTuple):
    """The values one collector read at one instant; units are in the names of the values."""

    source: str
    time_s: float
    values: Mapping[str, float]


class Forecast(NamedTuple):
    """A predicted series: `quantiles[i, h]` is quantile `levels[i]` at step h of the horizon."""

    levels: tuple[float, ...]
    quantiles: Floats
    mean: Floats


class Clock(Protocol):
    """Real or virtual time."""

    def now(self) -> float: ...
    def sleep(self, seconds: float) -> None: ...


class Collector(Protocol):
    """One sensor. A broken one raises; the agent counts the failure and goes on without it."""

    def collect(self, now: float) -> Sample: ...


class Forecaster(Protocol):
    """Predicts a series of numbers."""

    def observe(self, t: float, value: float) -> None: ...
    def fit(self, history: Floats) -> None: ...
    def predict(self, horizon_s: float) -> Forecast: ...


class Estimator(Protocol):
    """Predicts run time or demand: one row of quantiles per description."""

    def fit(self, rows: Sequence[Mapping[str, object]]) -> None: ...
    def predict(self, rows: Sequence[Mapping[str, object]]) -> Floats: ...


class PolicyLike(Protocol):
    """A policy. Pure: the same state and forecast give the same plan (records of `ACTION`)."""

    def decide(self, state: State, forecast: Forecast | None) -> Records: ...


class Allocator(Protocol):
    """Sets target shares (order = shares): a row per job, a column per pool. Pure."""

    def targets(self, state: State) -> Floats: ...


class Tuner(Protocol):
    """Improves a plan. Pure, like a policy."""

    def adjust(self, state: State, forecast: Forecast | None, plan: Records) -> Records: ...


class Engine(Protocol):
    """Acts on real or simulated nodes. Every action is idempotent by (job, attempt), and those
    that change a running attempt by (job, attempt, sequence)."""

    def nodes(self) -> Sequence[LiveNode]: ...
    def apply(self, action: Action) -> Receipt: ...
    def observe(self) -> Sequence[Report]: ...
    def acknowledge(self, reports: Sequence[Report]) -> None: ...
    def reconcile(self, expected: Sequence[tuple[int, int]]) -> Sequence[Report]: ...


class Ticket(Protocol):
    """A promise of durability; `wait` raises if it cannot be kept."""

    def wait(self) -> int: ...


class Journal(Protocol):
    """Durable memory: an action launches only after its intent's ticket."""

    def append(self, events: Sequence[Event]) -> Ticket: ...
    def record(self, events: Sequence[Event]) -> None: ...


class RunTimeLearner(Protocol):
    """Learns run times from jobs that end, and predicts those of jobs that are submitted."""

    def observe(self, changes: Mapping[int, Job]) -> Mapping[int, RunTime]: ...


class Learner(Protocol):
    """Learns from the journal's jobs in the worker process; messages go to the control plane."""

    def begin(
        self, jobs: Sequence[Job], devices_of: Callable[[JobSpec], float], now_us: int
    ) -> None: ...
    def observe(self, changes: Mapping[int, Job], now_us: int) -> list[Message]: ...
    def measure(self, resized: Sequence[SizeChange], now_us: int) -> list[Message]: ...
    def every_minute(self, active: Iterable[Job], now_us: int) -> list[Message]: ...
    def predict(self, spec: JobSpec, now_us: int) -> RunTime: ...
    def status(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
