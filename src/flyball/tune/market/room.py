"""Makes room in compiled code: chooses which running jobs a pending one may displace.

A gang needs whole nodes, so the prices alone do not place it. The jobs that lose least are taken
off the nodes that are cheapest to clear, and only if the gang is worth more than they lose.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import bit_count, kernel
from flyball.tune.market.clearing import ENDLESS, NONE, worth
from flyball.tune.market.draft import NO_SIZE, put, release
from flyball.tune.market.options import YOUNG
from flyball.tune.market.plan_rows import is_bidder

SPARED = 3
"""Preemptions after which a job that changed lately is not displaced even by an overdue one."""


@kernel
def clear_for(state: Any, bench: Any, bidder: Any, reason: int, late: bool) -> bool:
    """Displace jobs so that a bidder fits at its best option, or at its smallest sizes.

    Args:
        reason: of the preemptions.
        late: displace whatever it costs, also jobs that changed lately.
    """
    kind = bench.kinds[bidder.kind]
    if kind.begin == kind.end:
        return False
    smallest = NO_SIZE
    for option_id in range(kind.begin, kind.end):
        smallest = min(smallest, bench.options[option_id].count)
    for attempt in range(2):
        best, highest = NONE, -ENDLESS
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            if attempt == 1 and option.count != smallest:
                continue
            surplus = worth(bench, bidder, option_id)
            surplus -= bench.pools[option.pool].price * option.count
            if surplus > highest:
                best, highest = option_id, surplus
        option = bench.options[best]
        most = ENDLESS if late else highest
        if most > 0.0 and find_victims(state, bench, option.pool, option.count, most, late):
            displace(state, bench, reason, bidder.unit * option.rate)
            if put(state, bench, bidder, option.pool, option.count):
                bidder.gain = bidder.unit * option.rate
                return True
    return False


@kernel
def find_victims(state: Any, bench: Any, pool_id: int, count: int, most: float, late: bool) -> bool:
    """Mark the jobs of least loss without which a gang would fit a pool; False = too much loss."""
    totals, pool, drafted = bench.totals[0], state.pools[pool_id], bench.pools[pool_id]
    if not late and count >= drafted.hopeless and most <= drafted.hopeless_loss:
        return False
    totals.mark += 1
    full, rest = count // pool.capacity, count % pool.capacity
    first, end = pool.first_node, pool.first_node + pool.nodes
    for node_id in range(first, end):
        bench.nodes[node_id].used = 0
    lost = 0.0
    for part in range(full + (1 if rest else 0)):
        need = pool.capacity if part < full else rest
        best, least = -1, ENDLESS
        for node_id in range(first, end):
            if bench.nodes[node_id].used == 0:
                loss = clear_node(state, bench, node_id, need, late, False)
                if loss < least:
                    best, least = node_id, loss
        lost += least
        if best < 0 or lost >= most:
            if not late:
                drafted.hopeless, drafted.hopeless_loss = count, most
            return False
        clear_node(state, bench, best, need, late, True)
        bench.nodes[best].used = 1
    return True


@kernel
def clear_node(state: Any, bench: Any, node_id: int, need: int, late: bool, marks: bool) -> float:
    """Return what jobs lose that must leave a node so that `need` devices are free.

    Args:
        late: also jobs that changed lately may have to leave.
        marks: whether to mark them as victims.
    """
    mark, free, lost = bench.totals[0].mark, bench.nodes[node_id].free, 0.0
    # 1. Devices of victims chosen for other nodes.
    row_id = state.nodes[node_id].first_row
    while row_id >= 0:
        row = state.rows[row_id]
        row_id = row.sibling
        if is_bidder(bench, row.job):
            bidder = bench.bidders[bench.bidder_of[row.job]]
            if bidder.mark == mark and in_place(bidder):
                free += bit_count(row.mask)
    # 2. Further jobs, by loss per device, then by number.
    last_density, last_job = -ENDLESS, -1
    while free < need:
        chosen, density, held = -1, ENDLESS, 0
        row_id = state.nodes[node_id].first_row
        while row_id >= 0:
            row = state.rows[row_id]
            row_id = row.sibling
            if not is_bidder(bench, row.job):
                continue
            bidder = bench.bidders[bench.bidder_of[row.job]]
            if bidder.mark == mark or not in_place(bidder) or is_safe(bidder, late):
                continue
            devices = bit_count(row.mask)
            per_device = loss_of(bench, bidder) / devices
            after = per_device > last_density or (per_device == last_density and row.job > last_job)
            if after and (per_device < density or (per_device == density and row.job < chosen)):
                chosen, density, held = row.job, per_device, devices
        if chosen < 0:
            return ENDLESS
        bidder = bench.bidders[bench.bidder_of[chosen]]
        free += held
        lost += loss_of(bench, bidder)
        if marks:
            bidder.mark = mark
        last_density, last_job = density, chosen
    return lost


@kernel
def in_place(bidder: Any) -> bool:
    """Return whether a bidder is still where it was before the plan."""
    return bool(bidder.pool >= 0 and bidder.first_place < 0)


@kernel
def is_safe(bidder: Any, late: bool) -> bool:
    """Return whether a bidder must not be displaced."""
    if late and bidder.locked == YOUNG:
        return bool(bidder.preemptions >= SPARED)
    return bool(bidder.locked != 0)


@kernel
def loss_of(bench: Any, bidder: Any) -> float:
    """Return what a running bidder loses if it is stopped, beyond the price of its devices."""
    price = bench.pools[bidder.was_pool].price
    return float(max(0.0, bidder.stay - price * bidder.was_count - bidder.stop))


@kernel
def displace(state: Any, bench: Any, reason: int, gain: float) -> None:
    """Release the jobs that the last search marked."""
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        if bidder.mark == bench.totals[0].mark and bidder.pool >= 0:
            release(state, bench, bidder)
            bidder.reason, bidder.gain, bidder.locked = reason, gain, 0
