"""Nodes on a virtual clock, behind the contract of an engine: the live control plane runs on it.

What is here outlives a control plane that is killed, as supervisors do. Faults are switched on from
outside: `lose` an attempt, or let launches come late.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import Action, Cap, Checkpoint, Launch, LiveNode, Report, Resize, Stop
from flyball.core.protocols import Receipt
from flyball.core.units import FOREVER_US, MIB_PER_GIB, S_PER_HOUR, US_PER_S, to_us
from flyball.physics import catalogue

Token = tuple[int, int]
Course = Callable[[JobSpec, int, int], tuple[float, int]]
"""(spec, job, attempt) to (seconds it would run, exit code)."""


@dataclass
class Attempt:
    """One claimed token.

    Attributes:
        began_us: -1 = the launch is still on its way.
        over_us: when it ends, or ended.
        why: how it ended, "" = it runs.
        devices, share: what it may use; it is taken to be as fast as it has of them.
        obeyed: the numbers of the last orders, by kind.
    """

    spec: JobSpec
    began_us: int
    over_us: int
    exit_code: int
    why: str = ""
    lost: bool = False
    void: bool = False
    devices: int = 1
    share: float = 1.0
    obeyed: dict[type, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)


class VirtualEngine:
    """An engine whose jobs only pass time.

    Attributes:
        nodes_: the nodes there are.
        attempts: every token that was claimed and not acknowledged.
        runs: how often each token was really started: never more than once.
    """

    def __init__(
        self, nodes: Sequence[LiveNode], now_us: Callable[[], int], course: Course | None = None
    ) -> None:
        self.nodes_ = tuple(nodes)
        self._now_us = now_us
        self._course = course or estimated
        self.attempts: dict[Token, Attempt] = {}
        self.runs: dict[Token, int] = {}
        self.launch_delay_us = 0
        self._listened: list[int] = []

    def nodes(self) -> Sequence[LiveNode]:
        return self.nodes_

    def apply(self, action: Action) -> Receipt:
        token = (action.job, action.attempt)
        if isinstance(action, Launch):
            self._launch(token, action.spec, action.rows)
        elif isinstance(action, Stop):
            self._stop(token)
        else:
            attempt = self.attempts.get(token)
            if attempt is None:
                return Receipt(*token, accepted=False)
            if attempt.obeyed.get(type(action), 0) < action.sequence:
                attempt.obeyed[type(action)] = action.sequence
                if not isinstance(action, Checkpoint):
                    self._steer(attempt, action)
        return Receipt(*token, accepted=True)

    def _steer(self, attempt: Attempt, action: Resize | Cap) -> None:
        """From now on it is faster or slower."""
        before = attempt.devices * attempt.share
        if isinstance(action, Resize):
            attempt.devices = _count(action.rows)
        else:
            attempt.share = action.share
        now = self._now_us()
        if attempt.why == "exit" and now < attempt.over_us:
            left_us = attempt.over_us - max(now, attempt.began_us)
            ratio = before / (attempt.devices * attempt.share)
            attempt.over_us += round(left_us * (ratio - 1.0))

    def _launch(self, token: Token, spec: JobSpec, rows: Sequence[Row]) -> None:
        if token in self.attempts or token in self.runs:
            return
        run_s, exit_code = self._course(spec, *token)
        began = self._now_us() + self.launch_delay_us
        over = began + to_us(run_s)
        why = "exit"
        if spec.limit_s and run_s > spec.limit_s:
            over, why, exit_code = began + to_us(spec.limit_s), "limit", 0
        self.attempts[token] = Attempt(spec, began, over, exit_code, why, devices=_count(rows))
        self.runs[token] = 1

    def _stop(self, token: Token) -> None:
        attempt = self.attempts.get(token)
        if attempt and not attempt.lost and self._now_us() < attempt.over_us:
            attempt.over_us, attempt.why = self._now_us(), "stopped"

    def lose(self, token: Token) -> None:
        """The supervisor of an attempt dies, and its processes with it."""
        attempt = self.attempts.get(token)
        if attempt and self._now_us() < attempt.over_us:
            attempt.lost, attempt.over_us = True, self._now_us()

    @property
    def alive(self) -> list[Token]:
        """What runs at this instant."""
        now = self._now_us()
        return [
            token
            for token, each in self.attempts.items()
            if not each.void and each.began_us <= now < each.over_us
        ]

    @property
    def next_us(self) -> int:
        """When something happens next."""
        now = self._now_us()
        times = [each.began_us for each in self.attempts.values() if each.began_us > now]
        times += [each.over_us for each in self.attempts.values() if each.over_us > now]
        return min(times, default=FOREVER_US)

    def wait(self, timeout_s: float) -> bool:
        """Block until something happens on a clock that is real, or so many seconds."""
        left_s = max(0.0, (self.next_us - self._now_us()) / US_PER_S)
        heard = select.select(self._listened, (), (), min(timeout_s, left_s))[0]
        return bool(heard) or left_s <= timeout_s

    def listen_to(self, descriptor: int) -> None:
        """Let `wait` end also when this becomes readable."""
        self._listened.append(descriptor)

    def close(self) -> None:
        """Nothing is held."""

    def observe(self) -> list[Report]:
        now, seen = self._now_us(), []
        for token, each in self.attempts.items():
            if each.began_us <= now and not each.void and "started" not in each.known:
                seen.append(Report(*token, "started", each.began_us, {"pid": 1}))
                each.known.add("started")
            if each.over_us <= now or each.void:
                seen.append(_end_of(token, each))
        return seen

    def acknowledge(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if report.what != "started":
                self.attempts.pop((report.job, report.attempt), None)

    def reconcile(self, expected: Sequence[Token]) -> list[Report]:
        now, seen = self._now_us(), []
        for token in [each for each in self.attempts if each not in set(expected)]:
            del self.attempts[token]  # on record as over
        for token in expected:
            each = self.attempts.get(token)
            if each is None:
                each = self.attempts[token] = Attempt(JobSpec(("",)), now, now, 0, void=True)
                self.runs.setdefault(token, 0)
            if each.void or each.over_us <= now:
                seen.append(_end_of(token, each))
            elif each.began_us <= now:
                seen.append(Report(*token, "started", each.began_us, {"pid": 1}))
        return seen


def _count(rows: Sequence[Row]) -> int:
    return max(1, sum(row.mask.bit_count() for row in rows))


def _end_of(token: Token, each: Attempt) -> Report:
    if each.void or each.lost:
        return Report(*token, "void" if each.void else "lost", each.over_us, {})
    values = {"exit_code": each.exit_code, "signal": 0, "why": each.why}
    return Report(*token, "ended", each.over_us, values)


def nodes_of(cluster: Cluster) -> list[LiveNode]:
    """The nodes of a cluster, one by one."""
    return [
        LiveNode(
            f"{group.name}{at}", catalogue.get(group.device).name, group.devices, group.cpus,
            round(group.memory_gib * MIB_PER_GIB),
        )
        for group in cluster.groups
        for at in range(group.count)
    ]  # fmt: skip


def estimated(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
    """Jobs take what their owners expect, give or take a third; drawn by the job's number."""
    expected = spec.estimate_s or spec.limit_s or S_PER_HOUR
    rng = np.random.default_rng([job, attempt])
    return float(expected * np.exp(0.3 * rng.standard_normal())), 0
