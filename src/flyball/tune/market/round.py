"""Carries out a round of the market: prices, then a plan with each job where it is worth most."""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Reason
from flyball.physics.compile import entry, kernel
from flyball.tune.market.clearing import (
    ENDLESS,
    NONE,
    STAY,
    appraise,
    choose,
    clear_market,
    is_outpriced,
    list_worths,
    worth,
)
from flyball.tune.market.draft import begin_draft, fits_back, put, put_back, release
from flyball.tune.market.index import weigh
from flyball.tune.market.options import list_bidders, list_kinds
from flyball.tune.market.plan_rows import take_over, write_plan
from flyball.tune.market.room import clear_for
from flyball.tune.market.sorting import sort

OVERDUE, OUTBID, YIELDED = int(Reason.OVERDUE), int(Reason.OUTBID), int(Reason.YIELDED)
WAYS = 32
"""Maximum number of pending jobs for which others are displaced in a round."""
SURELY = 1.0 - 1e-9
"""Part of its price below which a device is not worth it, whatever is rounded."""
FIRST = 1e100
"""Key of jobs that are placed before all others."""


@entry
def trade(state: Any, plan: Any, settings: Any, bench: Any) -> int:
    """Carry out a round.

    Returns:
        The number of actions in `bench.out`; -1 = the bench is too small.
    """
    terms = settings[0]
    # 1. List the jobs that bid, and what each could have.
    if not list_bidders(state, bench, terms):
        return -1
    list_kinds(state, bench, terms)
    begin_draft(state, bench)
    take_over(state, bench, plan)
    set_capacities(bench, terms)
    # 2. Weigh their work and find the prices.
    weigh(bench, terms)
    appraise(state, bench, terms)
    list_worths(bench, terms)
    clear_market(bench)
    # 3. Start jobs that waited too long, making room for one of them.
    serve_late(state, bench, terms)
    # 4. Release the running jobs that are worth more elsewhere; place these and pending ones.
    place_all(state, bench)
    # 5. Displace jobs for others that find no room though they are worth more.
    make_way(state, bench)
    # 6. Fill what is still free.
    fill(state, bench)
    return write_plan(bench, plan)


@kernel
def set_capacities(bench: Any, terms: Any) -> None:
    """Set the devices of each pool that bidders hold or could hold, less those soon needed."""
    asked, total = 0.0, 0.0
    for pool_id in range(len(bench.pools)):
        pool = bench.pools[pool_id]
        pool.capacity = pool.supply = pool.free
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        asked += bidder.asked
        if bidder.pool >= 0:
            bench.pools[bidder.pool].capacity += bidder.count
            bench.pools[bidder.pool].supply += 0 if bidder.locked else bidder.count
    for pool_id in range(len(bench.pools)):
        total += bench.pools[pool_id].capacity
    bench.totals[0].crowd = bench.totals[0].bidders / max(1.0, total)
    if terms.peak < 0.0:
        return
    left = max(0.0, 1.0 - max(0.0, terms.peak - asked) / max(1.0, total))
    for pool_id in range(len(bench.pools)):
        bench.pools[pool_id].supply *= left


@kernel
def is_late(bench: Any, terms: Any, bidder: Any) -> bool:
    """Return whether a bidder waited for `patience_s`, or too long for what it asks."""
    if bidder.waited_us >= terms.patience_us:
        return True
    if terms.stretch <= 0.0:
        return False
    ideal_us = bidder.length_us * max(1.0, bidder.asked * bench.totals[0].crowd)
    return bool(bidder.waited_us >= max(terms.gap_us, terms.stretch * ideal_us))


@kernel
def serve_late(state: Any, bench: Any, terms: Any) -> None:
    """Start the jobs that waited too long, the longest wait first; make room for one of them."""
    late = 0
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.pool < 0 and is_late(bench, terms, bidder):
            bench.order[late].key, bench.order[late].tie = -bidder.waited_us, at
            late += 1
    sort(bench.order, late)
    made_room = False
    for place in range(late):
        bidder = bench.bidders[bench.order[place].tie]
        served = put_best(state, bench, bidder, -ENDLESS, -ENDLESS)
        if not served and not made_room:
            made_room = clear_for(state, bench, bidder, YIELDED, True)
            served = made_room
        if served:
            bidder.reason = OVERDUE


@kernel
def place_all(state: Any, bench: Any) -> None:
    """Release running jobs that are worth more elsewhere; place these and pending ones."""
    waiting = 0
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.first_place >= 0:
            continue  # it is overdue and placed already
        if is_outpriced(bench, at, SURELY):
            bidder.best, bidder.surplus = NONE, bidder.stop
            continue
        choose(bench, bidder)
        if bidder.pool >= 0:
            if bidder.best == STAY:
                continue
            release(state, bench, bidder)
        if bidder.best != NONE:
            place = bench.order[waiting]
            place.key, place.tie = -bidder.surplus / count_of(bench, bidder), at
            waiting += 1
    sort(bench.order, waiting)
    for place_id in range(waiting):
        bidder = bench.bidders[bench.order[place_id].tie]
        put_best(state, bench, bidder, bidder.stop, -ENDLESS)


@kernel
def count_of(bench: Any, bidder: Any) -> int:
    """Return the devices of a bidder's best option."""
    return int(bidder.was_count if bidder.best == STAY else bench.options[bidder.best].count)


@kernel
def put_best(state: Any, bench: Any, bidder: Any, floor: float, least: float) -> bool:
    """Place a bidder where its surplus is highest among what has room; False = none has.

    Args:
        floor: surplus that it must exceed.
        least: worth that it must exceed.
    """
    kind, price = bench.kinds[bidder.kind], 0.0
    kept = -ENDLESS
    if bidder.was_pool >= 0:
        price = bench.pools[bidder.was_pool].price
        kept = bidder.stay - price * bidder.was_count
        if bidder.stay <= least or not fits_back(state, bench, bidder):
            kept = -ENDLESS
    while True:
        best, highest = NONE, floor
        if kept > highest:
            best, highest = STAY, kept
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            pool = bench.pools[option.pool]
            if option.count > pool.free or option.count >= pool.blocked:
                continue
            value = worth(bench, bidder, option_id)
            surplus = value - pool.price * option.count
            if value > least and surplus > highest:
                best, highest = option_id, surplus
        if best == NONE:
            return False
        if best == STAY:
            put_back(state, bench, bidder)
            return True
        option = bench.options[best]
        if put(state, bench, bidder, option.pool, option.count):
            note_gain(bench, bidder, option, highest)
            return True
        if bench.pools[option.pool].blocked > option.count:
            return False  # the power budget or the hosts have no room for it


@kernel
def note_gain(bench: Any, bidder: Any, option: Any, surplus: float) -> None:
    """Note what a start or a change gains, in reference device time per time."""
    bidder.gain = bidder.unit * option.rate
    if bidder.was_pool >= 0 and bidder.index > 0.0:
        kept = bidder.stay - bench.pools[bidder.was_pool].price * bidder.was_count
        bidder.gain = max(0.0, surplus - kept) * bidder.unit / bidder.index


@kernel
def make_way(state: Any, bench: Any) -> None:
    """Displace running jobs for each pending one that is worth more than they lose by it."""
    waiting = 0
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.pool < 0 and bidder.best >= 0 and bidder.surplus > 0.0:
            place = bench.order[waiting]
            place.key, place.tie = -bidder.surplus / count_of(bench, bidder), at
            waiting += 1
    sort(bench.order, waiting)
    for place_id in range(min(waiting, WAYS)):
        bidder = bench.bidders[bench.order[place_id].tie]
        clear_for(state, bench, bidder, OUTBID, False)


@kernel
def fill(state: Any, bench: Any) -> None:
    """Place the rest where there is room: jobs that ran first, then by worth per device."""
    waiting, free, pools = 0, 0, len(bench.pools)
    for pool_id in range(pools):
        free += bench.pools[pool_id].free
    if free == 0:
        return
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.pool >= 0:
            continue
        density = -ENDLESS
        for pool_id in range(pools):
            density = max(density, bench.densities[at * pools + pool_id])
        place = bench.order[waiting]
        place.key, place.tie = -density, at
        if bidder.was_pool >= 0:
            place.key -= FIRST
        waiting += 1
    sort(bench.order, waiting)
    for place_id in range(waiting):
        bidder = bench.bidders[bench.order[place_id].tie]
        put_best(state, bench, bidder, -ENDLESS, 0.0)
