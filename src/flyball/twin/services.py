"""Simulates a service on a virtual clock, request by request: how long requests wait for replicas.

Requests arrive at random at a changing rate; they wait in one queue and the first goes to the
first replica with room. A replica that is ordered is ready after its start-up time; one that is
stopped takes no more requests and is paid until those it has are answered. How long an answer
takes depends on its length and on how full the batches are when it begins
(`physics/serving.py`); all batches are assumed equally full, as good routing keeps them.

Time advances in ticks: arrivals are exact, answers end at ticks, and queued requests start at one.
"""

from __future__ import annotations

import math
from collections import deque
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
"""Time between two samples of the power."""
DRAWS = 1 << 16
"""Random numbers drawn at a time."""
MAX_PER_TICK = 4096
"""Maximum arrivals in one tick; a mean of more than a quarter of this is refused."""
WAIT_BINS = 1 << 16
"""Bins of the histogram of waits, one per tick waited."""
LONG_ANSWER = 0.99
"""Quantile of answer lengths for which a stopped replica is still paid."""
ROUNDING = 1e-6
"""Tolerance in ticks: an end that should fall on a tick must not slip to the next."""
REACHED, NEEDS_DRAWS = 0, 1
"""Results of `_advance`: the tick was reached, or more random numbers are needed first."""

COUNTERS = np.dtype(
    [
        ("gap", "f8"),  # expected arrivals until the next one
        ("energy_j", "f8"),  # of replicas that are ready
        ("ready", "i8"),  # replicas
        ("busy", "i8"),  # clumps being answered
        ("tick", "i8"),
        ("head", "i8"),  # position of the first request in the queue
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
        ("power_ticks", "i8"),  # between two samples of the power
    ],
    align=True,
)


class ServiceArrays(NamedTuple):
    """Holds everything the kernel reads and writes."""

    counters: Records
    fixed: Records
    expected: Floats  # arrivals of clumps per tick, by block
    wheel: npt.NDArray[np.int32]  # how many answers end at a tick
    queue: Floats  # arrival times of waiting requests, a ring
    gaps: Floats  # drawn: gaps between arrivals, in expected arrivals
    prompts: Floats  # drawn: seconds to read a prompt
    outputs: Floats  # drawn: tokens of an answer
    waits: Ints  # requests by ticks waited


@hot
def _start(arrays: Any, time_s: float, wait_s: float) -> None:
    """Start an answer, in batches as full as they are now."""
    now, fixed = arrays.counters[0], arrays.fixed[0]
    batch = min(float(fixed.batch), (now.busy + 1.0) * fixed.clump / now.ready)
    token_s = fixed.first_s + fixed.each_s * batch + fixed.stall_s * max(batch - 1.0, 0.0)
    draw = now.lengths_used
    end_s = time_s + arrays.prompts[draw] + arrays.outputs[draw] * token_s
    tick = max(math.ceil(end_s / fixed.tick_s - ROUNDING), now.tick + 1)
    arrays.wheel[tick & (len(arrays.wheel) - 1)] += 1
    now.lengths_used += 1
    now.busy += 1
    now.started += 1
    arrays.waits[min(int(wait_s / fixed.tick_s), len(arrays.waits) - 1)] += 1
    if wait_s > fixed.target_s:
        now.late += 1


@entry
def _advance(arrays: Any, until: int) -> int:
    """Advance to a tick; return whether it was reached or more random numbers are needed first.

    It stops only where it can resume without any effect on the result.
    """
    now, fixed = arrays.counters[0], arrays.fixed[0]
    wheel_mask, queue_mask = len(arrays.wheel) - 1, len(arrays.queue) - 1
    slots = now.ready * fixed.batch // fixed.clump
    while now.tick < until:
        # 1. Answers end.
        now.busy -= arrays.wheel[now.tick & wheel_mask]
        arrays.wheel[now.tick & wheel_mask] = 0
        time_s = now.tick * fixed.tick_s
        # 2. Waiting requests start while there is room, first come first served.
        while now.waiting > 0 and now.busy < slots and now.lengths_used < len(arrays.prompts):
            arrived_s = arrays.queue[now.head & queue_mask]
            now.head += 1
            now.waiting -= 1
            _start(arrays, time_s, time_s - arrived_s)
        room = len(arrays.queue) - now.waiting
        if len(arrays.gaps) - now.gaps_used < MAX_PER_TICK or room < MAX_PER_TICK:
            return NEEDS_DRAWS
        if len(arrays.prompts) - now.lengths_used < MAX_PER_TICK:
            return NEEDS_DRAWS
        # 3. Arrivals of this tick start at once or join the queue.
        expected = arrays.expected[now.tick // fixed.block_ticks]
        left = expected
        while now.gap < left:
            left -= now.gap
            at_s = time_s + fixed.tick_s * (1.0 - left / expected)
            now.gap = arrays.gaps[now.gaps_used]
            now.gaps_used += 1
            now.arrived += 1
            if now.waiting == 0 and now.busy < slots:
                _start(arrays, at_s, 0.0)
            else:
                arrays.queue[(now.head + now.waiting) & queue_mask] = at_s
                now.waiting += 1
        now.gap -= left
        # 4. The power is sampled about every second.
        if now.tick % fixed.power_ticks == 0 and now.ready > 0:
            batch = now.busy * fixed.clump / now.ready
            watts = fixed.idle_w + fixed.more_w * (1.0 - math.exp(-batch / fixed.scale))
            now.energy_j += now.ready * watts * fixed.tick_s * fixed.power_ticks
        now.tick += 1
    return REACHED


@dataclass(frozen=True)
class Served:
    """Holds the results of a service.

    Attributes:
        requests: number of arrivals.
        within: share of them that waited at most the target; those still waiting at the end do
            not count as within.
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
        """Return the quantile `level` of the wait."""
        shares = np.cumsum(self.waits) / max(1, self.waits.sum())
        return float(np.searchsorted(shares, level)) * self.tick_s


class ReplicaFleet:
    """Counts the replicas that are ready, starting and paid for."""

    def __init__(self, ready: int, startup_s: float) -> None:
        self.ready, self._startup_s = ready, startup_s
        self._starting: deque[tuple[float, int]] = deque()
        self.paid_s = 0.0
        self.idle_s = 0.0

    @property
    def ordered(self) -> int:
        """Return the number of replicas ready or starting."""
        return self.ready + sum(count for _, count in self._starting)

    @property
    def next_s(self) -> float:
        """Return when the next replica is ready."""
        return self._starting[0][0] if self._starting else math.inf

    def order(self, now_s: float, count: int, drain_s: float) -> None:
        """Set the number of replicas to `count`; starting ones are stopped first, newest first."""
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
        """Account for the time up to `end_s`, at most `next_s`; replicas become ready then."""
        starting = self.ordered - self.ready
        span_s = end_s - begin_s
        self.paid_s += self.ordered * span_s
        self.idle_s += starting * span_s
        while self._starting and self._starting[0][0] <= end_s:
            self.ready += self._starting.popleft()[1]


class Service:
    """Runs a service: order replicas, advance the clock, read the results."""

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
        self.fleet = ReplicaFleet(ready, replica.startup_s)
        self.now_s = 0.0
        self._arrivals = np.random.default_rng((seed, 1))
        self._lengths = np.random.default_rng((seed, 2))
        self._prompts = replica.prefill_s[0] + replica.prefill_s[1] * traffic.lengths.prompt
        self._long = float(np.quantile(traffic.lengths.output, LONG_ANSWER))
        self._tick_s = tick_s
        self._arrays = self._new_arrays(traffic.block_rates(seed), target_s)
        self._now = self._arrays.counters.view(np.ndarray)  # a plain array is faster to read

    def _new_arrays(self, rates: Floats, target_s: float) -> ServiceArrays:
        tick_s = self._tick_s
        expected = rates * (tick_s / self.traffic.clump)
        assert expected.max(initial=0.0) * 4 < MAX_PER_TICK, "too many arrivals in a tick"
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
        return ServiceArrays(
            *(counters, fixed, expected),
            np.zeros(_power_of_two(longest_s / tick_s + 2), np.int32),
            np.zeros(_power_of_two(4 * MAX_PER_TICK)),
            *(np.empty(DRAWS), np.empty(DRAWS), np.empty(DRAWS)),
            np.zeros(WAIT_BINS, np.int64),
        )

    def order(self, count: int) -> None:
        """Set the number of replicas from now on."""
        if count == self.fleet.ordered:
            return
        batch = self._now["busy"][0] * self.traffic.clump / max(1, self.fleet.ready)
        batch = min(max(batch, 1.0), float(self.replica.largest_batch))
        drain_s = self.replica.service_s(self.traffic.lengths.means[0], self._long, batch)
        self.fleet.order(self.now_s, count, drain_s)

    def advance(self, until_s: float) -> None:
        """Advance the clock; times are rounded to ticks."""
        while self.now_s < until_s:
            end_s = min(until_s, self.fleet.next_s)
            self._now["ready"] = self.fleet.ready
            until = round(end_s / self._tick_s)
            while _advance(self._arrays, until) == NEEDS_DRAWS:
                self._refill()
            self.fleet.pass_time(self.now_s, end_s)
            self.now_s = end_s

    def _refill(self) -> None:
        """Replace the random numbers used, and double the queue if it is nearly full."""
        arrays, now = self._arrays, self._now
        used = int(now["gaps_used"][0])
        _shift_in(arrays.gaps, used, self._arrivals.standard_exponential(used))
        now["gaps_used"] = 0
        used = int(now["lengths_used"][0])
        picked = self._lengths.integers(0, len(self._prompts), (used, 2), np.uint16)
        _shift_in(arrays.prompts, used, self._prompts[picked[:, 0]])
        _shift_in(arrays.outputs, used, self.traffic.lengths.output[picked[:, 1]])
        now["lengths_used"] = 0
        waiting = int(now["waiting"][0])
        if len(arrays.queue) - waiting < MAX_PER_TICK:
            order = (now["head"][0] + np.arange(waiting)) & (len(arrays.queue) - 1)
            queue = np.zeros(2 * len(arrays.queue))
            queue[:waiting] = arrays.queue[order]
            now["head"] = 0
            self._arrays = arrays._replace(queue=queue)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Return the requests so far: arrived, started, and late among the started."""
        now, clump = self._now, self.traffic.clump
        arrived, started, late = (int(now[name][0]) for name in ("arrived", "started", "late"))
        return arrived * clump, started * clump, late * clump

    def served(self) -> Served:
        """Return the results so far."""
        arrived, started, late = self.counts
        replica = self.replica
        idle_j = self.fleet.idle_s * replica.draw_w[0]
        return Served(
            arrived,
            (started - late) / arrived if arrived else 1.0,
            self.fleet.paid_s * replica.devices / S_PER_HOUR,
            (float(self._now["energy_j"][0]) + idle_j) / J_PER_KWH,
            self._arrays.waits.copy() * self.traffic.clump,
            self._tick_s,
        )


def _shift_in(drawn: Floats, used: int, fresh: Floats) -> None:
    """Move the unused numbers to the front and append fresh ones."""
    drawn[: len(drawn) - used] = drawn[used:].copy()
    drawn[len(drawn) - used :] = fresh


def _power_of_two(least: float) -> int:
    """Return the smallest power of two of at least `least`, and at least 2."""
    return 1 << math.ceil(math.log2(max(2.0, least)))
