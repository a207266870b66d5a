"""The order in which rounds go through the pools.

`evict` sets where rounds of preemption look for jobs to preempt, `types` how rounds of target
shares fill the pools.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.knobs import Evict, Types
from flyball.physics.compile import kernel, lowest_bit
from flyball.schedule.allocate import rate_of
from flyball.schedule.place_random import mixed

FASTEST, BEST = int(Evict.FASTEST), int(Evict.BEST)
SHUFFLED = int(Types.SHUFFLED)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def next_pool(state: Any, knobs: Any, job: Any, pools: Any) -> int:
    """Return the pool to try first of those in the mask `pools`, which is not 0."""
    if knobs.evict == FASTEST:
        for at in range(len(state.pools)):
            pool_id = state.pools[at].visit
            if (pools >> np.uint64(pool_id)) & ONE != ZERO:
                return int(pool_id)
    first = lowest_bit(pools)
    if knobs.evict == BEST:
        best = rate_of(state, job, first, knobs.cap, False)
        rest = pools & (pools - ONE)
        while rest != ZERO:
            pool_id = lowest_bit(rest)
            rest &= rest - ONE
            rate = rate_of(state, job, pool_id, knobs.cap, False)
            if rate > best:
                first, best = pool_id, rate
    return int(first)


@kernel
def pool_at(state: Any, knobs: Any, at: int, now: int) -> int:
    """Return the pool that a round of target shares fills at this position.

    With types = shuffled the pools come in the order of numbers drawn by a hash of the seed, the
    round and the pool, ties by index: any order is as likely as any other.
    """
    if knobs.types != SHUFFLED:
        return int(state.pools[at].visit)
    base = mixed(mixed(knobs.shuffle_seed) + now // knobs.round_us)
    for pool_id in range(len(state.pools)):
        number, before = mixed(base + pool_id), 0
        for other_id in range(len(state.pools)):
            other = mixed(base + other_id)
            if other < number or (other == number and other_id < pool_id):
                before += 1
        if before == at:
            return pool_id
    return -1
