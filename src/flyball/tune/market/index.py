"""Weighs the work of each bidder, in compiled code.

For work, a microsecond of a job's progress is worth its reference device time. For completion
time it is worth, in the k-th largest of the jobs by work left,

    (k - k (1 - 1/k)^c)^(1-p) / (its speed on an equal share of the cluster among the k largest)

where p is the elasticity of its speed there (1 % more devices make it p % faster) and
c = 1 / (1 - p). The numerator is 1 to 1.44; docs/concept/tuning.md derives the rule.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel
from flyball.tune.market.sorting import sort

LINEAR = 1e-3
"""1 - p below which a speed counts as linear in devices."""


@kernel
def weigh(bench: Any, terms: Any) -> None:
    """Set the index of every bidder."""
    kappa = terms.completion
    devices = 0.0
    weigh_pools(bench)
    if kappa > 0.0:
        rank(bench)
        devices = standard_devices(bench)
    for at in range(bench.totals[0].bidders):
        bidder = bench.bidders[at]
        index, bidder.growth = 1.0, 1.0
        if kappa < 1.0:
            long = 1.0 + terms.long * min(1.0, bidder.length_us / terms.long_us)
            index *= (bidder.unit * long) ** (1.0 - kappa)
            bidder.growth = long ** (kappa - 1.0)
        if kappa > 0.0:
            index *= marginal_time(bench, bidder, devices / bidder.rank) ** kappa
        bidder.index = index


@kernel
def weigh_pools(bench: Any) -> None:
    """Set the weight of each pool: the mean speed of one device, over the job's fastest pool's."""
    for pool_id in range(len(bench.pools)):
        bench.pools[pool_id].weight, bench.pools[pool_id].jobs = 0.0, 0.0
    for kind_id in range(bench.totals[0].kinds):
        kind = bench.kinds[kind_id]
        fastest = 0.0
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            fastest = max(fastest, option.rate / option.count)
        last = -1
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            if option.pool != last:  # the smallest size of the pool
                last = option.pool
                pool = bench.pools[last]
                pool.weight += kind.jobs * option.rate / option.count / fastest
                pool.jobs += kind.jobs
    for pool_id in range(len(bench.pools)):
        pool = bench.pools[pool_id]
        pool.weight = pool.weight / pool.jobs if pool.jobs > 0.0 else 1.0


@kernel
def rank(bench: Any) -> None:
    """Rank the bidders by work left in time of a device of the fastest pool, 1 = the largest."""
    bidders = bench.totals[0].bidders
    for at in range(bidders):
        bidder = bench.bidders[at]
        kind = bench.kinds[bidder.kind]
        least = 1e300
        for option_id in range(kind.begin, kind.end):
            option = bench.options[option_id]
            least = min(least, option.count * bench.pools[option.pool].weight / option.rate)
        entry = bench.order[at]
        entry.key, entry.tie = -least * bidder.left_us, at
    sort(bench.order, bidders)
    for place in range(bidders):
        bench.bidders[bench.order[place].tie].rank = place + 1.0


@kernel
def standard_devices(bench: Any) -> float:
    """Return the devices that bidders could hold, in devices of the fastest pool."""
    total = 0.0
    for pool_id in range(len(bench.pools)):
        total += bench.pools[pool_id].capacity * bench.pools[pool_id].weight
    return total


@kernel
def marginal_time(bench: Any, bidder: Any, share: float) -> float:
    """Return the time that a unit of work adds to all completions, the bidder having a share."""
    kind = bench.kinds[bidder.kind]
    fastest, slope, devices = 0.0, 0.0, 0.0
    last, size, speed, held = -1, 0.0, 0.0, 0.0
    for option_id in range(kind.begin, kind.end):
        option = bench.options[option_id]
        if option.pool != last:
            last, size, speed = option.pool, 0.0, 0.0
            held = share / bench.pools[last].weight
        if held > size:
            steep = (option.rate - speed) / (option.count - size)
            beyond = held > option.count
            there = option.rate if beyond else speed + steep * (held - size)
            if there > fastest:
                fastest, slope, devices = there, 0.0 if beyond else steep, held
        size, speed = option.count, option.rate
    if fastest <= 0.0:
        return 0.0
    concave = 1.0 - slope * devices / fastest
    if concave < LINEAR:
        return 1.0 / fastest
    shrunk = (1.0 - 1.0 / bidder.rank) ** (1.0 / concave)
    return float((bidder.rank * (1.0 - shrunk)) ** concave / fastest)
