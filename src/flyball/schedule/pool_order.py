"""The order in which rounds look through the pools for jobs to preempt (knob `evict`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.knobs import Evict
from flyball.physics.compile import kernel, lowest_bit
from flyball.schedule.allocate import rate_of

FASTEST, BEST = int(Evict.FASTEST), int(Evict.BEST)
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
