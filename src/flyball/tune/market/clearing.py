"""Finds the prices at which the pools of a market clear, in compiled code.

A bidder's demand in a pool at a price follows from the concave hull of its worth over devices,
which begins at what it would have elsewhere or by not running. The steps of all hulls, steepest
first, fill the pool; the price is the slope of the first step that does not fit: what one more
device would add. All pools together by one factor, then each by itself, are cleared in turn until
no price changes by much.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel
from flyball.tune.market.options import grown, speed_at
from flyball.tune.market.sorting import threshold

ENDLESS = 1e300
NONE, STAY = -1, -2
"""Instead of an option: it does not run; it goes on as it is."""
SWEEPS = 6
LEAST_WORTH = 0.05
"""Part of its value that work keeps however much energy it takes, so that no job waits for ever."""
LIKELY = 0.8
"""Part of its price before that a price rarely falls below in one step."""
SETTLED = 0.01
"""Change of a price, as a part of the highest, below which it counts as settled."""


@kernel
def appraise(state: Any, bench: Any, terms: Any) -> None:
    """Set the price of a watt, and what staying and stopping are worth to each bidder."""
    totals = bench.totals[0]
    best_sum, jobs = 0.0, 0
    for at in range(totals.bidders):
        bidder = bench.bidders[at]
        frugal = bench.kinds[bidder.kind].frugal
        if frugal > 0.0:
            best_sum += bidder.index * frugal
            jobs += 1
    totals.watt_price = terms.energy * best_sum / jobs if jobs else 0.0
    for at in range(totals.bidders):
        bidder = bench.bidders[at]
        bidder.stay, bidder.stop = 0.0, 0.0
        if bidder.was_pool < 0:
            continue
        job, pool = state.jobs[bidder.job], state.pools[bidder.was_pool]
        rate = speed_at(state, bench, job, bidder.was_pool, bidder.was_count)
        watts = state.rates[job.profile * len(state.pools) + bidder.was_pool].watts
        watts = bidder.was_count * (watts + pool.host_w / pool.capacity)
        size = bidder.was_count
        asked_speed = rate
        if size > bidder.asked:
            asked_speed = speed_at(state, bench, job, bidder.was_pool, bidder.asked)
        more = grown(rate, size, bidder.asked, asked_speed)
        value = value_of(bidder, rate, more)
        bidder.stay = less_energy(bench, bidder, value, rate, watts)
        if rate > 0.0:
            lasts_us = min(bidder.left_us / rate, terms.horizon_us)
            bidder.stop = -terms.margin * value * bidder.restart_us / max(lasts_us, 1.0)


@kernel
def value_of(bidder: Any, rate: float, more: float) -> float:
    """Return what a speed is worth, of which devices beyond those asked for add a part."""
    return float(bidder.index * (rate - more + bidder.growth * more))


@kernel
def less_energy(bench: Any, bidder: Any, value: float, rate: float, watts: float) -> float:
    """Return a value less the price of the watts beyond those of the job's thriftiest option."""
    frugal = bench.kinds[bidder.kind].frugal
    if frugal <= 0.0:
        return value
    beyond = max(0.0, watts - rate / frugal)
    return float(max(value - bench.totals[0].watt_price * beyond, min(value, LEAST_WORTH * value)))


@kernel
def list_worths(bench: Any, terms: Any) -> None:
    """List what each option is worth to each bidder, less its restart spread over its time left.

    Also by pool the most that a device can be worth to it.
    """
    end, pools = 0, len(bench.pools)
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        kind = bench.kinds[bidder.kind]
        bidder.worths = end - kind.begin
        for pool_id in range(pools):
            bench.densities[at * pools + pool_id] = -ENDLESS
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            value = value_of(bidder, option.rate, option.grown)
            if bidder.was_pool >= 0:
                lasts_us = min(bidder.left_us / option.rate, terms.horizon_us)
                value *= 1.0 - terms.margin * bidder.restart_us / max(lasts_us, 1.0)
            bench.worths[end] = less_energy(bench, bidder, value, option.rate, option.watts)
            if option.pool == bidder.was_pool and option.count == bidder.was_count:
                bench.worths[end] = bidder.stay
            place = at * pools + option.pool
            density = bench.worths[end] / option.count
            bench.densities[place] = max(bench.densities[place], density)
            end += 1


@kernel
def worth(bench: Any, bidder: Any, option_id: int) -> float:
    """Return what an option is worth to a bidder."""
    return float(bench.worths[bidder.worths + option_id])


@kernel
def clear_market(bench: Any) -> None:
    """Set the price of a device in every pool."""
    pools = len(bench.pools)
    for pool_id in range(pools):
        bench.pools[pool_id].price = bench.pools[pool_id].weight
    for sweep in range(SWEEPS):
        # 1. All prices by one factor. Where a job is as well off in either of two pools, neither
        # price can move by itself.
        factor = clear_all(bench, LIKELY if sweep else 0.0)
        if sweep and factor < LIKELY:
            factor = clear_all(bench, 0.0)
        for pool_id in range(pools):
            bench.pools[pool_id].price *= factor
        # 2. Each by itself.
        change, highest = 0.0, 0.0
        for pool_id in range(pools):
            pool = bench.pools[pool_id]
            price = clear_pool(bench, pool_id, LIKELY * pool.price)
            if price < LIKELY * pool.price:
                price = clear_pool(bench, pool_id, 0.0)
            change = max(change, abs(price - pool.price))
            highest = max(highest, price)
            pool.price = price
        if change <= SETTLED * highest:
            break


@kernel
def clear_pool(bench: Any, pool_id: int, least: float) -> float:
    """Return the price at which a pool clears, the other prices being as they are.

    Args:
        least: pending jobs that value a device less are left out: the result is right unless it
            is below.
    """
    steps, pools = 0, len(bench.pools)
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.locked or (bidder.was_pool < 0 and bench.densities[at * pools + pool_id] < least):
            continue
        steps = list_steps(bench, bidder, pool_id, steps)
    return float(threshold(bench.steps, steps, bench.pools[pool_id].supply))


@kernel
def clear_all(bench: Any, least: float) -> float:
    """Return the factor on all prices at which the pools together clear.

    Args:
        least: pending jobs to which no device is worth this part of its price are left out: the
            result is right unless it is below.
    """
    supply, highest, steps = 0.0, 0.0, 0
    for pool_id in range(len(bench.pools)):
        supply += bench.pools[pool_id].price * bench.pools[pool_id].supply
        highest = max(highest, bench.pools[pool_id].price)
    if highest <= 0.0:
        return 1.0
    for kind_id in range(bench.totals[0].kinds):
        merge_by_cost(bench, bench.kinds[kind_id])
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if not bidder.locked and not is_outpriced(bench, at, least):
            steps = list_costs(bench, bidder, steps)
    return float(threshold(bench.steps, steps, supply))


@kernel
def is_outpriced(bench: Any, at: int, part: float) -> bool:
    """Return whether no device is worth this part of its price to a pending job."""
    pools = len(bench.pools)
    if bench.bidders[at].was_pool >= 0:
        return False
    for pool_id in range(pools):
        if bench.densities[at * pools + pool_id] >= part * bench.pools[pool_id].price:
            return False
    return True


@kernel
def merge_by_cost(bench: Any, kind: Any) -> None:
    """Order the options of a kind by cost; those of a pool are in order already."""
    for end in range(kind.begin, kind.end):
        bench.by_cost[end] = end
        cost = cost_of(bench, bench.options[end])
        at = end
        while at > kind.begin and cost_of(bench, bench.options[bench.by_cost[at - 1]]) > cost:
            bench.by_cost[at] = bench.by_cost[at - 1]
            at -= 1
        bench.by_cost[at] = end


@kernel
def cost_of(bench: Any, option: Any) -> float:
    """Return the price of an option."""
    return float(bench.pools[option.pool].price * option.count)


@kernel
def list_costs(bench: Any, bidder: Any, steps: int) -> int:
    """Append the steps of a bidder's spending in all pools; return the number of steps."""
    kind = bench.kinds[bidder.kind]
    bench.xs[0], bench.ys[0] = 0.0, bidder.stop
    top, kept_cost = 0, 0.0
    inserts = bidder.was_pool >= 0
    if inserts:
        kept_cost = bench.pools[bidder.was_pool].price * bidder.was_count
    for at in range(kind.begin, kind.end):
        option_id = bench.by_cost[at]
        cost = cost_of(bench, bench.options[option_id])
        if inserts and cost >= kept_cost:
            top = add_point(bench, top, kept_cost, bidder.stay)
            inserts = False
        top = add_point(bench, top, cost, worth(bench, bidder, option_id))
    if inserts:
        top = add_point(bench, top, kept_cost, bidder.stay)
    return write_steps(bench, top, steps)


@kernel
def list_steps(bench: Any, bidder: Any, pool_id: int, steps: int) -> int:
    """Append the steps of a bidder's demand in a pool; return the number of steps."""
    kind = bench.kinds[bidder.kind]
    # 1. What it has without this pool.
    outside = bidder.stop
    begin, end = kind.end, kind.begin
    for option_id in range(kind.begin, kind.end):
        option = bench.options[option_id]
        if option.pool == pool_id:
            begin, end = min(begin, option_id), option_id + 1
        else:
            surplus = worth(bench, bidder, option_id)
            outside = max(outside, surplus - bench.pools[option.pool].price * option.count)
    if bidder.was_pool >= 0 and bidder.was_pool != pool_id:
        kept = bidder.stay - bench.pools[bidder.was_pool].price * bidder.was_count
        outside = max(outside, kept)
    # 2. The hull over its sizes here, the one it has among them.
    bench.xs[0], bench.ys[0] = 0.0, outside
    top = 0
    inserts = bidder.was_pool == pool_id
    for option_id in range(begin, end):
        option = bench.options[option_id]
        if inserts and option.count >= bidder.was_count:
            top = add_point(bench, top, bidder.was_count, bidder.stay)
            inserts = False
        top = add_point(bench, top, option.count, worth(bench, bidder, option_id))
    if inserts:
        top = add_point(bench, top, bidder.was_count, bidder.stay)
    return write_steps(bench, top, steps)


@kernel
def write_steps(bench: Any, top: int, steps: int) -> int:
    """Append the steps between the points of a hull; return the number of steps."""
    for at in range(1, top + 1):
        step = bench.steps[steps]
        step.devices = bench.xs[at] - bench.xs[at - 1]
        step.slope = (bench.ys[at] - bench.ys[at - 1]) / step.devices
        steps += 1
    return steps


@kernel
def add_point(bench: Any, top: int, count: float, value: float) -> int:
    """Add a size to the hull and drop what falls below it; return the last point's index."""
    xs, ys = bench.xs, bench.ys
    if value <= ys[top]:
        return top
    if count <= xs[top]:  # as many devices, or free ones
        top -= 1
        if top < 0:
            ys[0] = value
            return 0
    while top > 0:
        slope = (value - ys[top]) / (count - xs[top])
        if slope < (ys[top] - ys[top - 1]) / (xs[top] - xs[top - 1]):
            break
        top -= 1
    xs[top + 1], ys[top + 1] = count, value
    return top + 1


@kernel
def choose(bench: Any, bidder: Any) -> None:
    """Set a bidder's best option at the prices, and its surplus."""
    kind = bench.kinds[bidder.kind]
    bidder.best, bidder.surplus = NONE, bidder.stop
    if bidder.was_pool >= 0:
        kept = bidder.stay - bench.pools[bidder.was_pool].price * bidder.was_count
        if kept >= bidder.surplus or bidder.locked:
            bidder.best, bidder.surplus = STAY, kept
        if bidder.locked:
            return
    for option_id in range(kind.begin, kind.end):
        option = bench.options[option_id]
        if option.pool == bidder.was_pool and option.count == bidder.was_count:
            continue
        surplus = worth(bench, bidder, option_id)
        surplus -= bench.pools[option.pool].price * option.count
        if surplus > bidder.surplus:
            bidder.best, bidder.surplus = option_id, surplus
