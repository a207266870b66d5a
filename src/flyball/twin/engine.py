"""An engine whose nodes run on a virtual clock; the live control plane can run on it.

Its state outlives a control plane that is killed, as supervisors do. Callers inject faults: they
`lose` an attempt, delay launches, or take a node down.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from flyball.core.cluster import Cluster
from flyball.core.jobs import JobSpec, Row
from flyball.core.live import (
    Action,
    Cap,
    Capabilities,
    Checkpoint,
    Launch,
    LiveNode,
    Report,
    Resize,
    Stop,
)
from flyball.core.protocols import Receipt
from flyball.core.units import FOREVER_US, MIB_PER_GIB, S_PER_HOUR, US_PER_S, to_us
from flyball.physics import catalogue

Token = tuple[int, int]
RunModel = Callable[[JobSpec, int, int], tuple[float, int]]
"""Maps (spec, job, attempt) to (seconds that it runs, exit code)."""


@dataclass
class VirtualAttempt:
    """Holds one claimed token.

    Attributes:
        began_us: when it starts or started; in the future while a launch is delayed.
        over_us: when it ends or ended.
        why: how it ends or ended.
        void: no launch was ever received.
        nodes: the names of those that it runs on.
        devices, share: what it may use; its speed is proportional to their product.
        obeyed: the sequence numbers of the last orders, by kind.
        reported: the kinds of reports already returned.
    """

    spec: JobSpec
    began_us: int
    over_us: int
    exit_code: int
    why: str = ""
    lost: bool = False
    void: bool = False
    nodes: frozenset[str] = frozenset()
    devices: int = 1
    share: float = 1.0
    obeyed: dict[type, int] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)


class VirtualEngine:
    """Runs jobs that only pass time.

    Attributes:
        nodes_: all nodes.
        attempts: every token that was claimed and not acknowledged.
        runs: number of starts of each token: never more than one.
    """

    def __init__(
        self, nodes: Sequence[LiveNode], now_us: Callable[[], int], course: RunModel | None = None
    ) -> None:
        self.nodes_ = tuple(nodes)
        self._now_us = now_us
        self._course = course or estimated
        self.attempts: dict[Token, VirtualAttempt] = {}
        self.runs: dict[Token, int] = {}
        self.launch_delay_us = 0
        self._listened: list[int] = []

    def capabilities(self) -> Capabilities:
        """Return what it can do; where there is one node only, no more can be asked for."""
        fields = frozenset({"nodes"} if len(self.nodes_) == 1 else ())
        return Capabilities(fields, resize=True, cap=True, preempt=True, choose_devices=True)

    @property
    def files(self) -> None:
        """It keeps none."""
        return None

    def nodes(self) -> Sequence[LiveNode]:
        return self.nodes_

    def apply(self, action: Action) -> Receipt:
        token = (action.job, action.attempt)
        if isinstance(action, Launch):
            self._launch(token, action)
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

    def _steer(self, attempt: VirtualAttempt, action: Resize | Cap) -> None:
        """Change the speed of an attempt from now on."""
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

    def _launch(self, token: Token, action: Launch) -> None:
        if token in self.attempts or token in self.runs:
            return
        spec, rows = action.spec, action.rows
        nodes = frozenset(action.nodes or [self.nodes_[row.node].name for row in rows])
        run_s, exit_code = self._course(spec, *token)
        began = self._now_us() + self.launch_delay_us
        over = began + to_us(run_s)
        why = "exit"
        if spec.limit_s and run_s > spec.limit_s:
            over, why, exit_code = began + to_us(spec.limit_s), "limit", 0
        self.attempts[token] = VirtualAttempt(
            spec, began, over, exit_code, why, nodes=nodes, devices=_count(rows)
        )
        self.runs[token] = 1
        if not nodes <= {node.name for node in self.nodes_ if node.up}:
            self.lose(token)

    def _stop(self, token: Token) -> None:
        attempt = self.attempts.get(token)
        if attempt and not attempt.lost and self._now_us() < attempt.over_us:
            attempt.over_us, attempt.why = self._now_us(), "stopped"

    def lose(self, token: Token) -> None:
        """Simulate the death of an attempt's supervisor and processes."""
        attempt = self.attempts.get(token)
        if attempt and self._now_us() < attempt.over_us:
            attempt.lost, attempt.over_us = True, self._now_us()

    def take_down(self, node: int) -> None:
        """Simulate the failure of a node: all attempts on it are lost, later ones as well."""
        self._set_up(node, False)
        for token, attempt in list(self.attempts.items()):
            if self.nodes_[node].name in attempt.nodes:
                self.lose(token)

    def remove(self, name: str) -> LiveNode:
        """Simulate that a node is gone, and its jobs with it; return it."""
        (place,) = (at for at, node in enumerate(self.nodes_) if node.name == name)
        self.take_down(place)
        node = self.nodes_[place]
        self.nodes_ = (*self.nodes_[:place], *self.nodes_[place + 1 :])
        return node

    def add(self, node: LiveNode) -> None:
        """Simulate that a node has come."""
        self.nodes_ = (*self.nodes_, node._replace(up=True))

    def bring_up(self, node: int) -> None:
        """Simulate the return of a node."""
        self._set_up(node, True)

    def give_others(self, node: int, devices: int = 0, cores: int = 0, memory_mib: int = 0) -> None:
        """Simulate that jobs which are not ours have a part of a node."""
        changed = self.nodes_[node]._replace(others=(devices, cores, memory_mib))
        self.nodes_ = (*self.nodes_[:node], changed, *self.nodes_[node + 1 :])

    def _set_up(self, node: int, up: bool) -> None:
        changed = self.nodes_[node]._replace(up=up)
        self.nodes_ = (*self.nodes_[:node], changed, *self.nodes_[node + 1 :])

    @property
    def alive(self) -> list[Token]:
        """Return the tokens of the attempts that run now."""
        now = self._now_us()
        return [
            token
            for token, attempt in self.attempts.items()
            if not attempt.void and attempt.began_us <= now < attempt.over_us
        ]

    @property
    def next_us(self) -> int:
        """Return when something happens next."""
        now = self._now_us()
        attempts = self.attempts.values()
        times = [attempt.began_us for attempt in attempts if attempt.began_us > now]
        times += [attempt.over_us for attempt in attempts if attempt.over_us > now]
        return min(times, default=FOREVER_US)

    def wait(self, timeout_s: float) -> bool:
        """Block until something happens (the clock is real) or for `timeout_s`."""
        left_s = max(0.0, (self.next_us - self._now_us()) / US_PER_S)
        poll = select.poll()  # select() fails for descriptors from 1024 on
        for descriptor in self._listened:
            poll.register(descriptor, select.POLLIN)
        readable = poll.poll(1e3 * min(timeout_s, left_s))
        return bool(readable) or left_s <= timeout_s

    def listen_to(self, descriptor: int) -> None:
        """End `wait` also when this descriptor becomes readable."""
        self._listened.append(descriptor)

    def close(self) -> None:
        """Do nothing: there are no resources to free."""

    def observe(self) -> list[Report]:
        now, reports = self._now_us(), []
        for token, attempt in self.attempts.items():
            started = attempt.began_us <= now and not attempt.void
            if started and "started" not in attempt.reported:
                reports.append(Report(*token, "started", attempt.began_us, {"pid": 1}))
                attempt.reported.add("started")
            if attempt.over_us <= now or attempt.void:
                reports.append(_end_of(token, attempt))
        return reports

    def acknowledge(self, reports: Sequence[Report]) -> None:
        for report in reports:
            if report.what != "started":
                self.attempts.pop((report.job, report.attempt), None)

    def reconcile(self, expected: Sequence[Token]) -> list[Report]:
        now, reports = self._now_us(), []
        for token in self.attempts.keys() - set(expected):
            del self.attempts[token]  # the journal has it as ended
        for token in expected:
            attempt = self.attempts.get(token)
            if attempt is None:
                attempt = VirtualAttempt(JobSpec(("",)), now, now, 0, void=True)
                self.attempts[token] = attempt
                self.runs.setdefault(token, 0)
            if attempt.void or attempt.over_us <= now:
                reports.append(_end_of(token, attempt))
            elif attempt.began_us <= now:
                reports.append(Report(*token, "started", attempt.began_us, {"pid": 1}))
        return reports


def _count(rows: Sequence[Row]) -> int:
    return max(1, sum(row.mask.bit_count() for row in rows))


def _end_of(token: Token, attempt: VirtualAttempt) -> Report:
    if attempt.void or attempt.lost:
        return Report(*token, "void" if attempt.void else "lost", attempt.over_us, {})
    values = {"exit_code": attempt.exit_code, "signal": 0, "why": attempt.why}
    return Report(*token, "ended", attempt.over_us, values)


def nodes_of(cluster: Cluster) -> list[LiveNode]:
    """Return a live node for every node of a cluster."""
    return [
        LiveNode(
            f"{group.name}{number}", catalogue.get(group.device).name, group.devices, group.cpus,
            round(group.memory_gib * MIB_PER_GIB),
        )
        for group in cluster.groups
        for number in range(group.count)
    ]  # fmt: skip


def estimated(spec: JobSpec, job: int, attempt: int) -> tuple[float, int]:
    """Return a run time near what the owner expects, drawn by job and attempt, and exit code 0."""
    expected = spec.estimate_s or spec.limit_s or S_PER_HOUR
    rng = np.random.default_rng([job, attempt])
    return float(expected * np.exp(0.3 * rng.standard_normal())), 0
