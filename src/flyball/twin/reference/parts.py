"""The oracle's data: jobs, nodes, devices and pools as plain objects."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from flyball.core.codes import ActionKind, Status
from flyball.core.units import MILLI_PER_DEVICE


class DeviceRow(NamedTuple):
    """Holds part of an allocation: devices of one node (bit i = device i), thousandths of each."""

    node: int
    mask: int
    milli: int


class DecidedAction(NamedTuple):
    """Holds one decided action; rows are those of a start, none for a preemption."""

    time_us: int
    kind: ActionKind
    job: int
    rows: tuple[DeviceRow, ...]


@dataclass(slots=True)
class Placement:
    """Holds the place a job would get and its `cost` under the place rule; the least is best."""

    pool: int
    rows: tuple[DeviceRow, ...]
    cost: tuple[float, ...] = ()


@dataclass(slots=True)
class Reservation:
    """Keeps nodes for the head of the queue, expected to start on them at `instant_us`."""

    job: int
    pool: int
    nodes: frozenset[int]
    instant_us: int


@dataclass(slots=True)
class PoolRate:
    """Holds one job's progress per microsecond and draw per device in one pool."""

    packed: float
    spread: float
    watts: float


@dataclass(slots=True)
class ElasticSizes:
    """Holds the range of devices of an elastic job, and its rates at each number of them."""

    least: int
    most: int
    rates: dict[int, list[PoolRate]]  # by number of devices, then by pool


@dataclass(slots=True)
class PoolShare:
    """Holds a job's target in one pool, and what it received since the policy was last asked."""

    target: float = 0.0  # part of the time
    received_us: int = 0  # in slices that are over
    deficit_us: float = 0.0  # target less received, up to when the policy was last asked


@dataclass(slots=True)
class UsualKind:
    """Holds a kind of job that the cluster usually sees, and the number of such jobs."""

    devices: int
    milli: int
    cpu_milli: int
    host_mib: int
    pools: int
    count: int


@dataclass(slots=True)
class Device:
    """Holds what is free of one device."""

    free_milli: int
    free_mib: int

    @property
    def whole_free(self) -> bool:
        return self.free_milli == MILLI_PER_DEVICE


@dataclass(slots=True, eq=False)
class Node:
    """Holds the devices, host, power and accounts of one node."""

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
    money: float = 0.0
    carbon_g: float = 0.0

    def hosts(self, job: Job, count: int) -> bool:
        """Return whether its host has room for `count` devices of the job."""
        cpu_milli, host_mib = job.on_host(count)
        return self.free_cpu_milli >= cpu_milli and self.free_host_mib >= host_mib

    def whole_free(self) -> list[int]:
        """Return the numbers of its whole free devices."""
        return [number for number, device in enumerate(self.devices) if device.whole_free]

    @property
    def free_milli(self) -> int:
        return sum(device.free_milli for device in self.devices)

    @property
    def used_milli(self) -> int:
        return len(self.devices) * MILLI_PER_DEVICE - self.free_milli


@dataclass(slots=True)
class Pool:
    """Holds a range of identical nodes, and the factors of the cap in force."""

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
    """Holds a job's description, then its progress."""

    index: int
    submit_us: int
    work_us: float
    estimate_us: float
    order_stretch: float
    backfill_stretch: float
    reference_us: float
    limit_us: int
    first_us: int  # set-up of its first start
    restart_us: int  # and of every other
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
    rates: list[PoolRate]  # by pool
    sizes: ElasticSizes | None  # None: it is rigid
    shares: list[PoolShare]  # by pool
    tenant: int
    owner: int
    model: int

    status: Status = Status.FUTURE
    done_us: float = 0.0  # work saved when the running slice began
    service_us: float = 0.0
    energy_j: float = 0.0
    money: float = 0.0
    carbon_g: float = 0.0
    lost_us: float = 0.0
    awake_us: int = 0  # when all nodes of the running slice are awake
    waking_us: int = 0  # time on nodes that were not awake yet
    first_start_us: int = -1
    end_us: int = -1  # planned while running, actual after, else -1
    attempt: int = 0
    preemptions: int = 0
    moves: int = 0  # preemptions after which it went on elsewhere at once
    failures: int = 0
    queued_us: int = 0  # when it last became pending
    promoted_us: float = 0.0  # device time forgiven at its last promotion
    predicted_us: float = 0.0  # 0: not yet
    defer_us: int = 0  # it may be held back until then; 0 = it may not, or was released
    start_number: int = 0  # number of its last start among all starts of the cluster

    # The running slice, or the last one.
    pool: int = -1
    nodes: int = 0
    rows: tuple[DeviceRow, ...] = ()
    rate: float = 0.0
    watts: float = 0.0
    held: int = 0  # devices
    cap: int = 0  # level
    slow: float = 1.0  # speed next to others on its device, as a fraction of that alone
    since_us: int = 0  # when it began, or its speed last changed
    began_us: int = 0
    ready_us: int = 0
    by_limit: bool = False  # its planned end is its limit

    @property
    def setup_us(self) -> int:
        """Return the set-up before progress of its next start."""
        return self.restart_us if self.attempt > 0 else self.first_us

    @property
    def fractional(self) -> bool:
        return self.milli < MILLI_PER_DEVICE

    @property
    def peers(self) -> list[tuple[str, *tuple[int, ...]]]:
        """Return the groups of jobs whose history it shares, nearest first."""
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
        """Return the host cores (thousandths) and memory (MiB) that `count` of its devices take."""
        if self.devices == 0:
            return self.cpu_milli, self.host_mib
        return (
            math.ceil(Fraction(self.cpu_milli * count, self.devices)),
            math.ceil(Fraction(self.host_mib * count, self.devices)),
        )

    def progress(self, now_us: int) -> float:
        """Return the work done by the running slice so far."""
        return max(0, now_us - self.ready_us) * self.rate

    def guess(self, done_us: float) -> float:
        """Return the work that expected ends assume, doubled until above `done_us`."""
        return doubled(self.estimate_us * self.backfill_stretch, done_us)

    def key_guess(self, done_us: float) -> float:
        """Return the work that keys assume, doubled until above `done_us`."""
        return doubled(self.estimate_us * self.order_stretch, done_us)

    def expected_end_us(self, now_us: int) -> int:
        """Return when policies expect the running slice to end: always after `now_us`."""
        guess = self.guess(self.done_us)
        while True:
            end_us = self.ready_us + math.ceil((guess - self.done_us) / self.rate)
            if end_us > now_us:
                return end_us
            guess *= 2


def doubled(guess: float, done_us: float) -> float:
    """Return a guess at a job's work, doubled until it is above `done_us`."""
    while guess <= done_us:
        guess *= 2
    return guess


def give_back(device: Device, job: Job, pool: Pool) -> None:
    """Free the job's part of a device of `pool`; a whole-device job had all of its memory."""
    device.free_milli += job.milli
    device.free_mib = device.free_mib + job.memory_mib if job.fractional else pool.memory_mib


def masked(devices: list[Device], mask: int) -> list[Device]:
    """Return the devices of a mask."""
    return [device for number, device in enumerate(devices) if mask >> number & 1]
