"""A control plane on a virtual clock without faults, and events as the journal keeps them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from flyball.control.ask.bills import Prices
from flyball.control.decide.governing import Governs
from flyball.control.decide.tuning_rounds import Tuning
from flyball.control.decide.verify import Verdict, Verifier
from flyball.control.plane import Plane
from flyball.core.events import Event, Intended, Submitted, event_of
from flyball.core.jobs import Job, JobSpec, JobState
from flyball.core.live import Action, Cap, Checkpoint, Launch, LiveNode, Resize, Stop
from flyball.core.protocols import Receipt, Tuner
from flyball.core.units import FOREVER_US, to_us
from flyball.schedule.policies.registry import get_policy
from flyball.tune.pathway_scope import Scope
from flyball.twin.engine import VirtualEngine

START_US = 1_700_000_000_000_000
ONE_NODE = (LiveNode("a", "CPU1", 4, 4, 8192),)
TWO_NODES = (*ONE_NODE, LiveNode("b", "CPU1", 4, 4, 8192))
WORDS = ("", "ada", "ben", "zoe")


class Watched(VirtualEngine):
    """Records actions; refuses those that `refuses` names."""

    actions: list[Action]
    refuses: tuple[type, ...] = ()

    def apply(self, action: Action) -> Receipt:
        if isinstance(action, self.refuses):
            return Receipt(action.job, action.attempt, accepted=False)
        self.actions.append(action)
        return super().apply(action)

    @property
    def launched(self) -> list[tuple[int, int]]:
        return [
            (action.job, action.attempt) for action in self.actions if isinstance(action, Launch)
        ]

    @property
    def steered(self) -> list[Resize | Cap | Checkpoint]:
        return [action for action in self.actions if isinstance(action, Resize | Cap | Checkpoint)]

    @property
    def stopped(self) -> list[tuple[int, int, str]]:
        stops = [action for action in self.actions if isinstance(action, Stop)]
        return [(action.job, action.attempt, action.why) for action in stops]


def course(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
    """Read from a job's environment how long it really takes and how it ends."""
    run_s = float(spec.env.get("RUN_S", spec.estimate_s or 10.0))
    return run_s, int(spec.env.get("CODE", 0))


class Rig:
    """Runs one control plane after another on the same folder, clock and engine."""

    def __init__(
        self,
        folder: Path,
        policy: str = "fifo",
        settings: Sequence[str] = (),
        nodes: Sequence[LiveNode] = ONE_NODE,
        prices: Prices | None = None,
        tuners: dict[str, Tuner] | None = None,
        begin_us: int = START_US,
        pathways: Scope = Scope.NAMED,
        governs: Callable[[], Governs] | None = None,
    ) -> None:
        self.folder, self.policy, self.pathways = folder, policy, pathways
        self.tuners, self.governs = tuners or {}, governs
        self.knobs = get_policy(policy).knobs.with_settings(list(settings))
        self.prices = prices
        self.now = begin_us
        self.at_point: dict[str, Callable[[], object]] = {}
        self.engine = Watched(nodes, lambda: self.now, course)
        self.engine.actions = []
        self.recovered = 0
        self.plane = self.open()

    def open(self) -> Plane:
        """Start a new control plane on the same folder."""
        self.plane = Plane(
            self.folder, self.engine, self.policy, self.knobs,
            lambda last: lambda: max(self.now, last), self.prices, inline=True,
            passing=self._passing, tuning=Tuning(self.tuners), pathways=self.pathways,
            governor=self.governs() if self.governs else None,
        )  # fmt: skip
        self.recovered = self.plane.open()
        return self.plane

    def _passing(self, point: str) -> None:
        """Run, once, what a test has set for a point of the cycle."""
        self.at_point.pop(point, lambda: None)()

    def submit(self, *, key: str = "", **asked: Any) -> int:
        """One job."""
        return self.plane.submit([spec_of(**asked)], key)[0]

    def settle(self) -> None:
        """Cycle until nothing more happens at this time."""
        for _ in range(50):
            if not self.plane.step():
                return
        raise AssertionError("it never comes to rest")

    def pass_s(self, seconds: float) -> None:
        """Let time pass, and cycle whenever something happens on the nodes."""
        self.settle()
        end = self.now + to_us(seconds)
        while self.engine.next_us <= end:
            self.now = self.engine.next_us
            self.settle()
        self.now = end
        self.settle()

    def finish(self) -> None:
        """Continue until no node has anything to do."""
        self.settle()
        while self.engine.next_us < FOREVER_US:
            self.now = self.engine.next_us
            self.settle()

    def job(self, job: int) -> Job:
        return self.plane.ask.job(job)

    def states(self, *jobs: int) -> list[JobState]:
        return [self.job(job).state for job in jobs]

    def start_s(self, job: int) -> float:
        """Return the seconds from the start of the test until a job first started."""
        return (self.job(job).first_start_us - START_US) / 1e6

    def events(self) -> list[tuple[int, Event]]:
        """Return all recorded events."""
        events: list[tuple[int, Event]] = []
        while page := self.plane.journal.events(events[-1][0] if events else 0, 1000):
            events += page
        return events

    def verdict(self) -> Verdict:
        """Repeat every decision."""
        governs = self.governs
        return Verifier(
            lambda names, settings: {name: self.tuners[name] for name in names},
            lambda about: governs() if governs else None,
        ).follow(self.events())


def spec_of(**asked: Any) -> JobSpec:
    """Return the spec of a small job that runs as long as estimated, by default 10 s."""
    return JobSpec(**{"argv": ("work",), **asked})


def env(run_s: float | None = None, code: int = 0) -> dict[str, str]:
    """How a job really goes."""
    real = {} if run_s is None else {"RUN_S": str(run_s)}
    return {**real, "CODE": str(code)}


# Events ---------------------------------------------------------------------------------


def submitted(job: int, time_us: int = START_US, **asked: Any) -> Submitted:
    return Submitted(time_us, job, json.loads(json.dumps(spec_of(**asked).as_dict())))


def about(kind: str, job: int, time_us: int = START_US, attempt: int = 1, **more: Any) -> Event:
    """Return an event of a kind, from a record of it."""
    return event_of({"kind": kind, "time_us": time_us, "job": job, "attempt": attempt, **more})


def intended(job: int, time_us: int = START_US, attempt: int = 1, mask: int = 1) -> Intended:
    return Intended(time_us, job, attempt, [[0, mask]], decision=1)


@st.composite
def any_spec(draw: st.DrawFn) -> JobSpec:
    """Whatever the table has a column for."""
    waits = st.tuples(st.sampled_from(["afterok", "afterany", "afternotok"]), st.integers(1, 5))
    return spec_of(
        user=draw(st.sampled_from(WORDS)),
        tenant=draw(st.sampled_from(WORDS)),
        model=draw(st.sampled_from(("", "ResNet-50", "no such model"))),
        kind=draw(st.sampled_from(("", "mixed"))),
        cpus=draw(st.integers(1, 4)),
        memory_mib=draw(st.sampled_from((0, 100))),
        estimate_s=draw(st.sampled_from((0.0, 1.5, 60.0))),
        limit_s=draw(st.sampled_from((0.0, 30.0))),
        priority=draw(st.sampled_from((0.0, 2.0))),
        array=draw(st.sampled_from((0, 1, 2))),
        array_limit=draw(st.sampled_from((0, 1))),
        after=tuple(draw(st.lists(waits, max_size=2))),
    )


@st.composite
def any_event(draw: st.DrawFn, jobs: int = 5) -> Event:
    """Draw an event about one of a few jobs; often it does not apply."""
    job, attempt = draw(st.integers(1, jobs)), draw(st.integers(1, 2))
    time_us = START_US + draw(st.integers(0, 100)) * 1_000_000
    kind = draw(st.sampled_from(list(MORE)))
    if kind == "submitted":
        plain = json.loads(json.dumps(draw(any_spec()).as_dict()))
        return Submitted(time_us, job, plain)
    if kind == "intended":
        return intended(job, time_us, attempt, draw(st.integers(1, 15)))
    more = {name: draw(values) for name, values in MORE[kind].items()}
    return about(kind, job, time_us, attempt, **more)


OVER = st.integers(START_US, START_US + 200_000_000)
MORE: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "submitted": {},
    "intended": {},
    "started": {"began_us": OVER},
    "stopping": {"why": st.sampled_from(("cancel", "preempt"))},
    "cancel": {"reason": st.sampled_from(("", "asked"))},
    "ended": {
        "over_us": OVER,
        "state": st.sampled_from(("COMPLETED", "FAILED", "CANCELLED")),
        "values": st.just({"exit_code": 1}),
    },
    "requeued": {"over_us": OVER, "why": st.sampled_from(("preempt", "lost", "void"))},
    "resized": {"devices": st.integers(1, 4), "rows": st.sampled_from(([], [[0, 1]], [[0, 6]]))},
    "capped": {"share": st.sampled_from((0.05, 0.5, 1.0))},
    "checkpointed": {},
    "prioritised": {"priority": st.sampled_from((-1.0, 0.0, 7.0))},
    "audit": {"what": st.just("a token"), "who": st.just("somebody")},
}


def histories(most: int = 25) -> st.SearchStrategy[list[Event]]:
    """Draw events in any order, after the submission of a few jobs."""
    begin = [submitted(1, cpus=2), submitted(2, user="ben"), intended(1)]
    return st.lists(any_event(), max_size=most).map(lambda rest: begin + rest)


class FakeSensors:
    """Returns preset measurements: `values` now, `stored` for the past."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.stored: dict[str, list[float]] = {}

    def latest(self) -> dict[str, Any]:
        return self.values

    def status(self) -> dict[str, Any]:
        return {}

    def names(self) -> list[str]:
        return list(self.stored)

    def series(self, name: str, seconds: float) -> tuple[Any, Any]:
        points = np.array(self.stored.get(name, []))
        return np.arange(len(points), dtype=float), points

    def features(self, name: str) -> list[Any]:
        return []

    def states(self) -> dict[str, Any]:
        return {}

    def ask_fast(self, seconds: float) -> None:
        return
