"""The rule of the market in plain Python: options, index, worth and prices, job by job."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flyball.core.codes import Status
from flyball.core.state import State
from flyball.tune.elastic import Elastic
from flyball.tune.market.bench import SIZES
from flyball.tune.market.clearing import LEAST_WORTH, SETTLED, SWEEPS
from flyball.tune.market.sorting import ROUNDING

Option = tuple[int, int]
"""Pool and number of devices."""


@dataclass
class PlainJob:
    """A job that bids: its options with their speeds, its index, and the worth of each option."""

    job: int
    left_us: float
    here: Option | None
    locked: bool
    only_kept: bool  # the size it has is not offered to its kind
    speeds: dict[Option, float]
    watts: dict[Option, float]
    index: float = 0.0
    growth: float = 1.0
    stop: float = 0.0
    worth: dict[Option, float] | None = None


def plain_round(state: State, settings: Elastic) -> tuple[list[PlainJob], list[float]]:
    """Return the bidders with index and worth, and the prices; nobody shares a device."""
    pools = range(len(state.pools))
    bidders = [plain_job(state, settings, job) for job in active(state)]
    free = [
        sum(int(node.free) for node in state.nodes if node.pool == pool and not node.down)
        for pool in pools
    ]
    capacity = [
        free[pool] + sum(b.here[1] for b in bidders if b.here and b.here[0] == pool)
        for pool in pools
    ]
    weights = pool_weights(bidders, pools)
    set_index(state, settings, bidders, capacity, weights)
    best = [
        max(b.index * b.speeds[option] / b.watts[option] for option in offered(b)) for b in bidders
    ]
    watt_price = settings.energy * sum(best) / len(best) if best else 0.0
    for bidder in bidders:
        set_worth(state, settings, bidder, watt_price)
    supply = [
        capacity[pool]
        - sum(b.here[1] for b in bidders if b.locked and b.here and b.here[0] == pool)
        for pool in pools
    ]
    return bidders, clear([b for b in bidders if not b.locked], supply, weights)


def active(state: State) -> list[int]:
    running = (Status.PENDING, Status.RUNNING)
    return [job for job, run in enumerate(state.runs) if run.status in running]


def plain_job(state: State, settings: Elastic, index: int) -> PlainJob:
    job, run, now_us = state.jobs[index], state.runs[index], int(state.clock[0].now_us)
    runs = run.status == Status.RUNNING
    done_us = float(run.done_us) + (max(0, now_us - run.ready_us) * run.rate if runs else 0.0)
    guess_us = float(job.estimate_us)
    while guess_us <= done_us:
        guess_us *= 2.0
    here = (int(run.pool), int(run.devices)) if runs else None
    spent = runs and int(run.preemptions) >= settings.changes
    young = runs and now_us - run.began_us < settings.gap_s * 1e6 * (1 + int(run.preemptions))
    speeds = {
        (pool, size): speed(state, job, pool, size)
        for pool in range(len(state.pools))
        if int(state.shapes[job.shape_id].pools) >> pool & 1
        for size in sizes_of(state, job)
    }
    speeds = {option: value for option, value in speeds.items() if value > 0.0}
    kept = {option: value for option, value in speeds.items() if option in grown(speeds, settings)}
    if here is not None:
        kept[here] = speed(state, job, *here)  # offered or not, it may go on
    watts = {option: drawn_w(state, job, option) for option in kept}
    offered_here = here in grown(speeds, settings)
    only_kept = here is not None and not offered_here
    return PlainJob(index, guess_us - done_us, here, bool(young or spent), only_kept, kept, watts)


def offered(bidder: PlainJob) -> list[Option]:
    """The options of its kind: without the size it has, if that is not offered."""
    hidden = bidder.here if bidder.only_kept else None
    return [option for option in sorted(bidder.speeds) if option != hidden]


def sizes_of(state: State, job: Any) -> list[int]:
    if job.curve < 0:
        return [int(job.devices)]
    span = state.ranges[job.curve]
    return [s for s in sorted({*SIZES, int(job.devices)}) if span.least <= s <= span.most]


def speed(state: State, job: Any, pool: int, size: int) -> float:
    pools = len(state.pools)
    if job.curve < 0:
        return float(state.rates[job.profile * pools + pool].packed)
    span = state.ranges[job.curve]
    ratios = [
        float(state.learned[other * pools + pool])
        for other in range(int(state.clock[0].next_job))
        if state.jobs[other].curve == job.curve and state.learned[other * pools + pool] != 1.0
    ]
    learned = sum(ratios) / len(ratios) if ratios else 1.0
    guess = state.guesses[int(span.first) + (size - int(span.least)) * pools + pool].packed
    return float(guess) * learned


def grown(speeds: dict[Option, float], settings: Elastic) -> set[Option]:
    """Sizes while a further device adds at least `eta` of the first ones."""
    kept: list[Option] = []
    for pool, size in sorted(speeds):
        mine = [option for option in kept if option[0] == pool]
        if mine:
            floor = settings.eta * speeds[mine[0]] / mine[0][1]
            more = speeds[pool, size] - speeds[mine[-1]]
            if more < floor * (size - mine[-1][1]):
                continue
        kept.append((pool, size))
    return set(kept)


def drawn_w(state: State, job: Any, option: Option) -> float:
    pool = state.pools[option[0]]
    rate = state.rates[job.profile * len(state.pools) + option[0]]
    return option[1] * (float(rate.watts) + float(pool.host_w) / int(pool.capacity))


def pool_weights(bidders: list[PlainJob], pools: range) -> list[float]:
    weights = []
    for pool in pools:
        parts = []
        for bidder in bidders:
            fastest = max(bidder.speeds[o] / o[1] for o in offered(bidder))
            smallest = min((o for o in offered(bidder) if o[0] == pool), default=None)
            if smallest is not None:
                parts.append(bidder.speeds[smallest] / smallest[1] / fastest)
        weights.append(sum(parts) / len(parts) if parts else 1.0)
    return weights


def set_index(
    state: State,
    settings: Elastic,
    bidders: list[PlainJob],
    capacity: list[int],
    weights: list[float],
) -> None:
    devices = sum(c * w for c, w in zip(capacity, weights, strict=True))
    area = [
        b.left_us * min(o[1] * weights[o[0]] / b.speeds[o] for o in offered(b)) for b in bidders
    ]
    largest_first = sorted(range(len(bidders)), key=lambda at: (-area[at], at))
    for place, at in enumerate(largest_first):
        bidder, job = bidders[at], state.jobs[bidders[at].job]
        unit = float(job.reference_us / job.estimate_us)
        long = 1.0 + settings.long * min(1.0, job.estimate_us / (settings.long_s * 1e6))
        work = (unit * long) ** (1.0 - settings.completion)
        bidder.growth = long ** (settings.completion - 1.0)
        share = devices / (place + 1)
        bidder.index = work * delay(bidder, share, place + 1, weights) ** settings.completion


def delay(bidder: PlainJob, share: float, rank: int, weights: list[float]) -> float:
    """What a unit of work adds to all completion times: see docs/concept/tuning.md."""
    best = (0.0, 0.0)
    for pool in sorted({o[0] for o in offered(bidder)}):
        held, points = share / weights[pool], [(0.0, 0.0)]
        points += [(float(o[1]), bidder.speeds[o]) for o in offered(bidder) if o[0] == pool]
        for (low, slow), (high, fast) in pairwise(points):
            if low < held <= high:
                slope = (fast - slow) / (high - low)
                there = slow + slope * (held - low)
                best = max(best, (there, slope * held / there), key=lambda pair: pair[0])
        if held > points[-1][0]:
            best = max(best, (points[-1][1], 0.0), key=lambda pair: pair[0])
    there, elasticity = best
    if 1.0 - elasticity < 1e-3:
        return 1.0 / there
    shrunk = (1.0 - 1.0 / rank) ** (1.0 / (1.0 - elasticity))
    return float((rank * (1.0 - shrunk)) ** (1.0 - elasticity) / there)


def set_worth(state: State, settings: Elastic, bidder: PlainJob, watt_price: float) -> None:
    job = state.jobs[bidder.job]
    cost_us = settings.margin * float(job.restart_us + job.checkpoint_us)
    bidder.worth = {}
    most = max(bidder.speeds[o] / bidder.watts[o] for o in offered(bidder))
    for option, rate in bidder.speeds.items():
        beyond_asked = grown_speed(state, job, option, rate)
        value = bidder.index * (rate - beyond_asked + bidder.growth * beyond_asked)
        lasts_us = max(1.0, min(bidder.left_us / rate, settings.horizon_s * 1e6))
        if option == bidder.here:
            bidder.stop = -value * cost_us / lasts_us
        elif bidder.here is not None:
            value *= 1.0 - cost_us / lasts_us
        beyond = max(0.0, bidder.watts[option] - rate / most)
        least = min(value, LEAST_WORTH * value)
        bidder.worth[option] = max(value - watt_price * beyond, least)


def grown_speed(state: State, job: Any, option: Option, rate: float) -> float:
    """What devices beyond those asked for add to a speed."""
    asked = int(job.devices)
    if option[1] <= asked:
        return 0.0
    asked_speed = speed(state, job, option[0], asked)
    return max(0.0, rate - asked_speed) if asked_speed > 0.0 else 0.0


def clear(bidders: list[PlainJob], supply: list[int], weights: list[float]) -> list[float]:
    """Return the prices: all together by a factor, then each by itself, until they settle."""
    prices = list(weights)
    for _ in range(SWEEPS):
        if max(prices) > 0.0:
            steps = []
            for bidder in bidders:
                points = [(prices[o[0]] * o[1], w) for o, w in (bidder.worth or {}).items()]
                steps += hull(bidder.stop, points)
            total = sum(p * s for p, s in zip(prices, supply, strict=True))
            factor = first_beyond(steps, total)
            prices = [factor * price for price in prices]
        change = 0.0
        for pool in range(len(prices)):
            steps = []
            for bidder in bidders:
                worth = bidder.worth or {}
                elsewhere = [w - prices[o[0]] * o[1] for o, w in worth.items() if o[0] != pool]
                outside = max([bidder.stop, *elsewhere])
                steps += hull(outside, [(o[1], w) for o, w in worth.items() if o[0] == pool])
            before, prices[pool] = prices[pool], first_beyond(steps, supply[pool])
            change = max(change, abs(prices[pool] - before))
        if change <= SETTLED * max(prices):
            break
    return prices


def hull(outside: float, points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return slope and width of each edge of the upper concave hull from (0, outside) upwards."""
    edges: list[tuple[float, float]] = []
    at = (0.0, max([outside, *(value for cost, value in points if cost == 0.0)]))
    while True:
        rising = [p for p in points if p[0] > at[0] and p[1] > at[1]]
        if not rising:
            return edges
        there = max(rising, key=lambda p: ((p[1] - at[1]) / (p[0] - at[0]), p[0]))
        edges.append(((there[1] - at[1]) / (there[0] - at[0]), there[0] - at[0]))
        at = there


def first_beyond(steps: list[tuple[float, float]], supply: float) -> float:
    """Return the slope of the first step that does not fit, steepest first; 0 = all fit."""
    supply *= 1.0 + ROUNDING
    for slope, width in sorted(steps, reverse=True):
        supply -= width
        if supply < 0.0:
            return slope
    return 0.0
