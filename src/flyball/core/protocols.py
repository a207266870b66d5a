"""The protocols between the parts, all structural. Time is in seconds since the clock's origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from flyball.core.events import Event
from flyball.core.forecast import Forecast as Forecast
from flyball.core.forecast import Outlook as Outlook
from flyball.core.live import Action, Capabilities, LiveNode, Report
from flyball.core.live import Receipt as Receipt
from flyball.core.records import Records
from flyball.core.results import Floats
from flyball.core.state import State


class Sample(NamedTuple):
    """The values one collector read at one instant; units are in the names of the values."""

    source: str
    time_s: float
    values: Mapping[str, float]


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
    """A policy. Pure: the same state and outlook give the same plan (records of `ACTION`)."""

    def decide(self, state: State, outlook: Outlook) -> Records: ...


class Allocator(Protocol):
    """Sets target shares (order = shares): a row per job, a column per pool. Pure."""

    def targets(self, state: State) -> Floats: ...


class Tuner(Protocol):
    """Improves a plan. Pure, like a policy."""

    def adjust(self, state: State, outlook: Outlook, plan: Records) -> Records: ...


class Engine(Protocol):
    """Acts on nodes, idempotently, by docs/reference/engines.md; only `wait` and `close` block."""

    @property
    def files(self) -> Path | None: ...  # a folder of files named after jobs; None = it keeps none
    def capabilities(self) -> Capabilities: ...
    def nodes(self) -> Sequence[LiveNode]: ...
    def apply(self, action: Action) -> Receipt: ...
    def observe(self) -> Sequence[Report]: ...
    def acknowledge(self, reports: Sequence[Report]) -> None: ...
    def reconcile(self, expected: Sequence[tuple[int, int]]) -> Sequence[Report]: ...
    def listen_to(self, descriptor: int) -> None: ...
    def wait(self, timeout_s: float) -> bool: ...
    def close(self) -> None: ...


class Ticket(Protocol):
    """A promise of durability; `wait` raises if it cannot be kept."""

    def wait(self) -> int: ...


class Journal(Protocol):
    """Durable memory: an action launches only after its intent's ticket."""

    def append(self, events: Sequence[Event]) -> Ticket: ...
    def record(self, events: Sequence[Event]) -> None: ...
