"""A service on a virtual clock, request by request: who waits how long for replicas.

Requests arrive at random at a rate that changes; they wait in one line and the first goes to the
first replica with room. A replica that is ordered is ready after its start-up time; one that is
given up takes no more requests and is paid until those it has are answered. How long an answer
takes follows from its own length and from how full the batches are when it begins
(`physics/serving.py`); batches are taken as equally full, as good routing keeps them.

Time goes in ticks: arrivals are exact, answers end at ticks, and whoever waited starts at one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from flyball.core.records import Records, records
from flyball.core.results import Floats, Ints
from flyball.core.units import J_PER_KWH, S_PER_HOUR
from flyball.physics.compile import entry, hot
from flyball.physics.serving import USUAL, Replica
from flyball.twin.traffic import BLOCK_S, Traffic

TICK_S = 1.0 / 32.0
POWER_S = 1.0
DRAWS = 1 << 16
"""Random numbers at a time."""
MOST_A_TICK = 4096
"""Arrivals in one tick; a set-up with more than a quarter of this on average is refused."""
WAIT_BINS = 1 << 16
LONG_ANSWER = 0.99
"""A replica that is given up is paid for as long as an answer of this quantile takes."""
ROUNDING = 1e-6
"""Of a tick: an end that should fall on one must not be put off to the next."""
THERE, MORE_DRAWS = 0, 1

COUNTERS = np.dtype(
    [
        ("gap", "f8"),  # expected arrivals until the next one
        ("energy_j", "f8"),  # of replicas that are ready
        ("ready", "i8"),  # replicas
        ("busy", "i8"),  # clumps being answered
        ("tick", "i8"),
        ("head", "i8"),  # of the line of those that wait
        ("waiting", "i8"),
        ("gaps_used", "i8"),
        ("lengths_used", "i8"),
        ("arrived", "i8"),
        ("started", "i8"),
        ("late", "i8"),  # of those started: waited longer than the target
    ],
    align=True,
)

FIXED = np.dtype(
    [
        ("tick_s", "f8"),
        ("target_s", "f8"),
        ("first_s", "f8"),  # per token
        ("each_s", "f8"),  # per token and request in the batch
        ("stall_s", "f8"),  # per token and other request: their prompts being read
        ("idle_w", "f8"),
        ("more_w", "f8"),
        ("scale", "f8"),
        ("clump", "i8"),
        ("batch", "i8"),  # the largest
        ("block_ticks", "i8"),
        ("power_ticks", "i8"),  # between two looks at the power
    ],
    align=True,
)


class Book(NamedTuple):
    """Everything the kernel reads and writes."""

    counters: Records
    fixed: Records
    expected: Floats  # arrivals of clumps per tick, by block
    wheel: npt.NDArray[np.int32]  # how many answers end at a tick
    line: Floats  # when those that wait arrived, a ring
    gaps: Floats  # drawn: expected arrivals between two
    prompts: Floats  # drawn: seconds to read each prompt
    outputs: Floats  # drawn: tokens of each answer
    waits: Ints  # by ticks waited


@hot
def _start(book: Any, time_s: float, wait_s: float) -> None:
    """Begin an answer, in batches as full as they are now."""
    now, fixed = book.counters[0], book.fixed[0]
    batch = min(float(fixed.batch), (now.busy + 1.0) * fixed.clump / now.ready)
    token_s = fixed.first_s + fixed.each_s * batch + fixed.stall_s * max(batch - 1.0, 0.0)
    draw = now.lengths_used
    end_s = time_s + book.prompts[draw] + book.outputs[draw] * token_s
    tick = max(math.ceil(end_s / fixed.tick_s - ROUNDING), now.tick + 1)
    book.wheel[tick & (len(book.wheel) - 1)] += 1
    now.lengths_used += 1
    now.busy += 1
    now.started += 1
    book.waits[min(int(wait_s / fixed.tick_s), len(book.waits) - 1)] += 1
    if wait_s > fixed.target_s:
        now.late += 1


@entry
def _advance(book: Any, until: int) -> int:
    """Go on to a tick; says whether it got there or needs more random numbers first.

    It stops only where it can go on as if nothing had been.
    """
    now, fixed = book.counters[0], book.fixed[0]
    turn, ring = len(book.wheel) - 1, len(book.line) - 1
    slots = now.ready * fixed.batch // fixed.clump
    while now.tick < until:
        # 1. Answers end.
        now.busy -= book.wheel[now.tick & turn]
        book.wheel[now.tick & turn] = 0
        time_s = now.tick * fixed.tick_s
        # 2. Whoever waits starts while there is room, first come first.
        while now.waiting > 0 and now.busy < slots and now.lengths_used < len(book.prompts):
            arrived_s = book.line[now.head & ring]
            now.head += 1
            now.waiting -= 1
            _start(book, time_s, time_s - arrived_s)
        room = len(book.line) - now.waiting
        if len(book.gaps) - now.gaps_used < MOST_A_TICK or room < MOST_A_TICK:
            return MORE_DRAWS
        if len(book.prompts) - now.lengths_used < MOST_A_TICK:
            return MORE_DRAWS
        # 3. Arrivals of this tick start at once or join the line.
        expected = book.expected[now.tick // fixed.block_ticks]
        left = expected
        while now.gap < left:
            left -= now.gap
            at_s = time_s + fixed.tick_s * (1.0 - left / expected)
            now.gap = book.gaps[now.gaps_used]
            now.gaps_used += 1
            now.arrived += 1
            if now.waiting == 0 and now.busy < slots:
                _start(book, at_s, 0.0)
            else:
                book.line[(now.head + now.waiting) & ring] = at_s
                now.waiting += 1
        now.gap -= left
        # 4. Every second, or so, the power.
        if now.tick % fixed.power_ticks == 0 and now.ready > 0:
            batch = now.busy * fixed.clump / now.ready
            watts = fixed.idle_w + fixed.more_w * (1.0 - math.exp(-batch / fixed.scale))
            now.energy_j += now.ready * watts * fixed.tick_s * fixed.power_ticks
        now.tick += 1
    return THERE


@dataclass(frozen=True)
class Served:
    """What became of the requests.

    Attributes:
        requests: that arrived.
        within: share of them that waited no longer than the target; of those that still wait
            at the end none counts.
        device_h: devices held, starting up and finishing included.
        energy_kwh: of the devices.
        waits: requests by ticks waited, and the tick.
    """

    requests: int
    within: float
    device_h: float
    energy_kwh: float
    waits: Ints
    tick_s: float

    def wait_s(self, level: float) -> float:
        """A quantile of the wait."""
        shares = np.cumsum(self.waits) / max(1, self.waits.sum())
        return float(np.searchsorted(shares, level)) * self.tick_s


class Fleet:
    """Replicas ready, on their way and paid for."""

    def __init__(self, ready: int, startup_s: float) -> None:
        self.ready, self._startup_s = ready, startup_s
        self._starting: deque[tuple[float, int]] = deque()
        self.paid_s = 0.0
        self.idle_s = 0.0

    @property
    def ordered(self) -> int:
        """Ready or on their way."""
        return self.ready + sum(count for _, count in self._starting)

    @property
    def next_s(self) -> float:
        """When the next one is ready."""
        return self._starting[0][0] if self._starting else math.inf

    def order(self, now_s: float, count: int, drain_s: float) -> None:
        """Ask for so many in all; those on their way are given up first, the newest first."""
        more = count - self.ordered
        if more > 0:
            self._starting.append((now_s + self._startup_s, more))
        while more < 0 and self._starting:
            ready_s, coming = self._starting.pop()
            more += coming
            if more > 0:
                self._starting.append((ready_s, more))
        if more < 0:
            self.ready += more
            self.paid_s -= more * drain_s
            self.idle_s -= more * drain_s

    def pass_time(self, begin_s: float, end_s: float) -> None:
        """Pay up to an instant, no later than the next one is ready; that one is ready then."""
        starting = self.ordered - self.ready
        span_s = end_s - begin_s
        self.paid_s += self.ordered * span_s
        self.idle_s += starting * span_s
        while self._starting and self._starting[0][0] <= end_s:
            self.ready += self._starting.popleft()[1]


class Service:
    """A service that is under way: order replicas, go on, look at what came of it."""

    def __init__(
        self,
        replica: Replica,
        traffic: Traffic,
        ready: int,
        seed: int,
        target_s: float = USUAL.wait_s,
        tick_s: float = TICK_S,
    ) -> None:
        self.replica, self.traffic = replica, traffic
        self.fleet = Fleet(ready, replica.startup_s)
        self.now_s = 0.0
        self._arrivals = np.random.default_rng((seed, 1))
        self._lengths = np.random.default_rng((seed, 2))
        self._prompts = replica.prefill_s[0] + replica.prefill_s[1] * traffic.lengths.prompt
        self._long = float(np.quantile(traffic.lengths.output, LONG_ANSWER))
        self._tick_s = tick_s
        self._book = self._new_book(traffic.block_rates(seed), target_s)
        self._now = self._book.counters.view(np.ndarray)  # plain fields are quicker to read

    def _new_book(self, rates: Floats, target_s: float) -> Book:
        tick_s = self._tick_s
        expected = rates * (tick_s / self.traffic.clump)
        assert expected.max(initial=0.0) * 4 < MOST_A_TICK, "too many arrivals in a tick"
        replica, (prompt, output) = self.replica, self.traffic.lengths.means
        stall_s = replica.prompt_s(prompt) / output
        fixed = records(1, FIXED)
        fixed[0] = (
            *(tick_s, target_s, *replica.token_s, stall_s, *replica.draw_w),
            *(
                self.traffic.clump,
                replica.largest_batch,
                round(BLOCK_S / tick_s),
                round(POWER_S / tick_s),
            ),
        )
        token_s = replica.token_s[0] + (replica.token_s[1] + stall_s) * replica.largest_batch
        longest_s = self._prompts.max() + float(self.traffic.lengths.output.max()) * token_s
        counters = records(1, COUNTERS)
        counters[0].gaps_used = counters[0].lengths_used = DRAWS
        counters[0].gap = self._arrivals.standard_exponential()
        return Book(
            *(counters, fixed, expected),
            np.zeros(_power_of_two(longest_s / tick_s + 2), np.int32),
            np.zeros(_power_of_two(4 * MOST_A_TICK)),
            *(np.empty(DRAWS), np.empty(DRAWS), np.empty(DRAWS)),
            np.zeros(WAIT_BINS, np.int64),
        )

    def order(self, count: int) -> None:
        """Ask for so many replicas from now on."""
        if count == self.fleet.ordered:
            return
        batch = self._now["busy"][0] * self.traffic.clump / max(1, self.fleet.ready)
        batch = min(max(batch, 1.0), float(self.replica.largest_batch))
        drain_s = self.replica.service_s(self.traffic.lengths.means[0], self._long, batch)
        self.fleet.order(self.now_s, count, drain_s)

    def advance(self, until_s: float) -> None:
        """Go on; all times are rounded to ticks."""
        while self.now_s < until_s:
            end_s = min(until_s, self.fleet.next_s)
            self._now["ready"] = self.fleet.ready
            until = round(end_s / self._tick_s)
            while _advance(self._book, until) == MORE_DRAWS:
                self._refill()
            self.fleet.pass_time(self.now_s, end_s)
            self.now_s = end_s

    def _refill(self) -> None:
        """Draw what was used, and make the line longer if it is nearly full."""
        book, now = self._book, self._now
        used = int(now["gaps_used"][0])
        _put_off(book.gaps, used, self._arrivals.standard_exponential(used))
        now["gaps_used"] = 0
        used = int(now["lengths_used"][0])
        picked = self._lengths.integers(0, len(self._prompts), (used, 2), np.uint16)
        _put_off(book.prompts, used, self._prompts[picked[:, 0]])
        _put_off(book.outputs, used, self.traffic.lengths.output[picked[:, 1]])
        now["lengths_used"] = 0
        waiting = int(now["waiting"][0])
        if len(book.line) - waiting < MOST_A_TICK:
            order = (now["head"][0] + np.arange(waiting)) & (len(book.line) - 1)
            line = np.zeros(2 * len(book.line))
            line[:waiting] = book.line[order]
            now["head"] = 0
            self._book = book._replace(line=line)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests so far: arrived, started, and of these late."""
        now, clump = self._now, self.traffic.clump
        arrived, started, late = (int(now[each][0]) for each in ("arrived", "started", "late"))
        return arrived * clump, started * clump, late * clump

    def served(self) -> Served:
        """The account so far."""
        arrived, started, late = self.counts
        replica = self.replica
        idle_j = self.fleet.idle_s * replica.draw_w[0]
        return Served(
            arrived,
            (started - late) / arrived if arrived else 1.0,
            self.fleet.paid_s * replica.devices / S_PER_HOUR,
            (float(self._now["energy_j"][0]) + idle_j) / J_PER_KWH,
            self._book.waits.copy() * self.traffic.clump,
            self._tick_s,
        )


def simulate(
    replica: Replica,
    traffic: Traffic,
    timeline: Sequence[tuple[float, int]],
    seed: int,
    target_s: float = USUAL.wait_s,
    tick_s: float = TICK_S,
) -> Served:
    """Run a whole service.

    Args:
        replica, traffic: what serves what.
        timeline: (seconds, replicas asked for), in order; the first are ready at once.
        seed: of everything random. The same requests come whatever the timeline.
        target_s: the wait that counts as late beyond.
        tick_s: the grain of time.
    """
    service = Service(replica, traffic, timeline[0][1], seed, target_s, tick_s)
    for time_s, count in timeline[1:]:
        service.advance(time_s)
        service.order(count)
    service.advance(traffic.span_s)
    return service.served()


def _put_off(drawn: Floats, used: int, fresh: Floats) -> None:
    """Move what was not used to the front and put new numbers behind it."""
    drawn[: len(drawn) - used] = drawn[used:].copy()
    drawn[len(drawn) - used :] = fresh


def _power_of_two(least: float) -> int:
    return 1 << math.ceil(math.log2(max(2.0, least)))
