"""The oracle's nouns: jobs, nodes, devices and pools as plain objects, read from a `State`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from flyball.core.codes import ActionKind, Status
from flyball.core.records import CAP_LEVELS, Records
from flyball.core.state import State
from flyball.core.units import MILLI_PER_DEVICE


class Row(NamedTuple):
    """Part of an allocation: devices of one node (bit i = device i), thousandths of each."""

    node: int
    mask: int
    milli: int


class Action(NamedTuple):
    """What was decided: rows are those of a start, none for a preemption."""

    time_us: int
    kind: ActionKind
    job: int
    rows: tuple[Row, ...]


@dataclass(slots=True)
class Placement:
    """Where a job would go, and how well it suits the place rule (`cost`: least is best)."""

    pool: int
    rows: tuple[Row, ...]
    cost: tuple[float, ...] = ()


@dataclass(slots=True)
class Reservation:
    """The head of the queue is expected to start at `instant_us` on these nodes."""

    job: int
    pool: int
    nodes: frozenset[int]
    instant_us: int


@dataclass(slots=True)
class Rate:
    """What one job would do in one pool: progress per microsecond and draw per device."""

    packed: float
    spread: float
    watts: float


@dataclass(slots=True)
class Sizes:
    """How many devices an elastic job may hold, and what it does with each number of them."""

    least: int
    most: int
    rates: dict[int, list[Rate]]  # by number of devices, then by pool


@dataclass(slots=True)
class Share:
    """What one job is to have of one pool, and has had since the policy was last asked."""

    target: float = 0.0  # part of the time
    received_us: int = 0  # in slices that are over
    deficit_us: float = 0.0  # target less received, up to when the policy was last asked


@dataclass(slots=True)
class Kind:
    """Jobs that the cluster usually sees, and how many of them there are."""

    devices: int
    milli: int
    cpu_milli: int
    host_mib: int
    pools: int
    count: int


@dataclass(slots=True)
class Device:
    free_milli: int
    free_mib: int

    @property
    def whole_free(self) -> bool:
        return self.free_milli == MILLI_PER_DEVICE


@dataclass(slots=True, eq=False)
class Node:
    index: int
    devices: list[Device]
    free_cpu_milli: int
    free_host_mib: int
    power_w: float
    since_us: int
    idle_since_us: int | None  # None: busy or down
    sleeps_us: int  # when it falls asleep if it stays idle
    awake_us: int = 0  # when it is awake after it was woken
    down: bool = False
    jobs: list[int] = field(default_factory=list)
    energy_j: float = 0.0
    busy_us: float = 0.0
    asleep_us: float = 0.0

    def hosts(self, job: Job, count: int) -> bool:
        """Whether its host has room for `count` devices of the job."""
        cpu_milli, host_mib = job.on_host(count)
        return self.free_cpu_milli >= cpu_milli and self.free_host_mib >= host_mib

    def whole_free(self) -> list[int]:
        """Its whole free devices, by number."""
        return [number for number, device in enumerate(self.devices) if device.whole_free]

    @property
    def free_milli(self) -> int:
        return sum(device.free_milli for device in self.devices)

    @property
    def used_milli(self) -> int:
        return len(self.devices) * MILLI_PER_DEVICE - self.free_milli


@dataclass(slots=True)
class Pool:
    """A run of identical nodes, and the factors of the cap in force."""

    index: int
    first_node: int
    nodes: int
    capacity: int
    memory_mib: int
    cpu_milli: int
    host_mib: int
    host_w: float
    idle_w: float
    sleep_w: float
    wake_us: int
    slowdown: float
    cap_power: float
    caps: list[tuple[float, float]]  # (slowdown, power) of every level

    @property
    def idle_draw_w(self) -> float:
        return self.host_w + self.capacity * self.idle_w


@dataclass(slots=True, eq=False)
class Job:
    """A job's description, then where it stands."""

    index: int
    submit_us: int
    work_us: float
    estimate_us: float
    reference_us: float
    limit_us: int
    restart_us: int
    checkpoint_us: int
    priority: float
    devices: int
    milli: int
    memory_mib: int
    cpu_milli: int
    host_mib: int
    profile: int
    group: int
    successors: list[int]
    waiting_on: int
    pools: list[int]  # those it could run on
    rates: list[Rate]  # by pool
    sizes: Sizes | None  # None: it is rigid
    shares: list[Share]  # by pool
    tenant: int
    owner: int
    model: int

    status: Status = Status.FUTURE
    done_us: float = 0.0  # work saved when the running slice began
    service_us: float = 0.0
    energy_j: float = 0.0
    lost_us: float = 0.0
    awake_us: int = 0  # when all nodes of the running slice are awake
    waking_us: int = 0  # time on nodes that were not awake yet
    first_start_us: int = -1
    end_us: int = -1  # planned while running, actual after, else -1
    attempt: int = 0
    preemptions: int = 0
    failures: int = 0
    queued_us: int = 0  # when it last became pending
    promoted_us: float = 0.0  # device time forgiven at its last promotion
    predicted_us: float = 0.0  # 0: not yet
    start_number: int = 0  # its last start was the cluster's n-th

    # The running slice, or the last one.
    pool: int = -1
    nodes: int = 0
    rows: tuple[Row, ...] = ()
    rate: float = 0.0
    watts: float = 0.0
    held: int = 0  # devices
    cap: int = 0  # level
    slow: float = 1.0  # its speed beside others on its device as a part of that alone
    since_us: int = 0  # when it began, or its speed last changed
    began_us: int = 0
    ready_us: int = 0
    by_limit: bool = False  # its planned end is its limit

    @property
    def fractional(self) -> bool:
        return self.milli < MILLI_PER_DEVICE

    @property
    def peers(self) -> list[tuple[str, *tuple[int, ...]]]:
        """The groups of jobs whose history it shares, nearest first."""
        return [
            ("alike", self.owner, self.model, self.devices),
            ("of owner", self.owner, self.devices),
            ("of size", self.devices),
            ("all",),
        ]

    @property
    def asks_milli(self) -> int:
        return self.devices * self.milli

    @property
    def final(self) -> bool:
        return self.status >= Status.DONE

    def on_host(self, count: int) -> tuple[int, int]:
        """Cores (thousandths) and memory (MiB) that `count` of its devices take of a host."""
        if self.devices == 0:
            return self.cpu_milli, self.host_mib
        return (
            math.ceil(Fraction(self.cpu_milli * count, self.devices)),
            math.ceil(Fraction(self.host_mib * count, self.devices)),
        )

    def progress(self, now_us: int) -> float:
        """Work of the running slice so far."""
        return max(0, now_us - self.ready_us) * self.rate

    def guess(self, done_us: float) -> float:
        """What policies take for its work: the estimate, doubled until it is above `done_us`."""
        return doubled(self.estimate_us, done_us)

    def expected_end_us(self, now_us: int) -> int:
        """When policies expect the running slice to end: always after `now_us`."""
        guess = self.guess(self.done_us)
        while True:
            end_us = self.ready_us + math.ceil((guess - self.done_us) / self.rate)
            if end_us > now_us:
                return end_us
            guess *= 2


def doubled(guess: float, done_us: float) -> float:
    """A guess at a job's work, doubled until it is above `done_us`."""
    while guess <= done_us:
        guess *= 2
    return guess


# Reading a State -------------------------------------------------------------

POOL_FIELDS = (
    *("first_node", "nodes", "capacity", "memory_mib", "cpu_milli", "host_mib"),
    *("host_w", "idle_w", "sleep_w", "wake_us"),
)
JOB_FIELDS = (
    *("submit_us", "work_us", "estimate_us", "reference_us"),
    *("limit_us", "restart_us", "checkpoint_us", "priority"),
    *("devices", "milli", "memory_mib", "profile", "group", "tenant", "owner", "model"),
)
"""Fields that are taken over under their own names."""


def _rows(array: Records) -> list[dict[str, Any]]:
    """A structured array as plain Python numbers by field name."""
    names = array.dtype.names
    assert names is not None
    return [dict(zip(names, row, strict=True)) for row in array.tolist()]


def read_pools(state: State, level: int) -> list[Pool]:
    """The pools under the cap of this level."""
    caps = _rows(state.caps)
    pools = []
    for index, row in enumerate(_rows(state.pools)):
        own = caps[index * CAP_LEVELS : (index + 1) * CAP_LEVELS]
        pools.append(
            Pool(
                index=index,
                slowdown=own[level]["slowdown"],
                cap_power=own[level]["power"],
                caps=[(each["slowdown"], each["power"]) for each in own],
                **{name: row[name] for name in POOL_FIELDS},
            )
        )
    return pools


def idle_nodes(pool: Pool, now_us: int, sleep_us: int) -> list[Node]:
    """The pool's nodes, up and idle since `now_us`."""
    return [
        Node(
            index=pool.first_node + offset,
            devices=[Device(MILLI_PER_DEVICE, pool.memory_mib) for _ in range(pool.capacity)],
            free_cpu_milli=pool.cpu_milli,
            free_host_mib=pool.host_mib,
            power_w=pool.idle_draw_w,
            since_us=now_us,
            idle_since_us=now_us,
            sleeps_us=now_us + sleep_us,
        )
        for offset in range(pool.nodes)
    ]


def read_jobs(state: State) -> list[Job]:
    """The jobs as described, none of them submitted."""
    pools = range(len(state.pools))
    rates = [Rate(row["packed"], row["spread"], row["watts"]) for row in _rows(state.rates)]
    links = state.links.tolist()
    shapes = _rows(state.shapes)
    sizes = _read_sizes(state)
    jobs = []
    for index, row in enumerate(_rows(state.jobs)):
        first, profile, shape = row["successors"], row["profile"], shapes[row["shape_id"]]
        jobs.append(
            Job(
                index=index,
                successors=links[first : first + row["successor_count"]],
                waiting_on=row["predecessors"],
                pools=[pool for pool in pools if shape["pools"] >> pool & 1],
                cpu_milli=shape["cpu_milli"],
                host_mib=shape["host_mib"],
                rates=rates[profile * len(pools) : (profile + 1) * len(pools)],
                sizes=sizes[row["curve"]] if row["curve"] >= 0 else None,
                shares=[Share() for _ in pools],
                **{name: row[name] for name in JOB_FIELDS},
            )
        )
    return jobs


def _read_sizes(state: State) -> list[Sizes]:
    """The curves of elastic jobs; what a device draws does not depend on their number."""
    if not len(state.ranges):
        return []
    points, pools = _rows(state.points), len(state.pools)
    curves = []
    for row in _rows(state.ranges):
        rates = {}
        for count in range(row["least"], row["most"] + 1):
            first = row["first"] + (count - row["least"]) * pools
            own = points[first : first + pools]
            rates[count] = [Rate(each["packed"], each["spread"], 0.0) for each in own]
        curves.append(Sizes(row["least"], row["most"], rates))
    return curves


def read_usual(state: State) -> list[Kind]:
    """The usual jobs by kind."""
    names = Kind.__slots__
    return [Kind(**{name: row[name] for name in names}) for row in _rows(state.usual)]
