"""First come, first served on the fastest type with room, moving up (Gavel's `fifo_perf`).

In order of submission each job gets the pool where it runs fastest of those with room; the
first job without one ends the list. Repeated in rounds, so a job moves to a faster pool when
one frees up. The strongest plain FIFO on mixed hardware; narrow jobs behind a wide one still
wait. `--set backfill=skip` lets them start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flyball.core.knobs import Backfill, Knobs, Order, Preempt
from flyball.core.results import Floats
from flyball.core.state import State
from flyball.schedule.policies.preset import Preset
from flyball.schedule.shares.demand import Demand, targets_by


@dataclass(frozen=True)
class FastestFirst:
    """Gives each job a full share of the fastest pool with room, in order of submission."""

    def targets(self, state: State) -> Floats:
        return targets_by(state, fastest_first)


def fastest_first(demand: Demand) -> Floats:
    """Return a share of 1 in the fastest pool with room, until a job finds none."""
    left = demand.capacity.copy()
    shares = np.zeros_like(demand.speeds)
    for at, asks in enumerate(demand.asks):  # jobs are numbered in order of submission
        speeds = np.where(left >= asks, demand.speeds[at], 0.0)
        pool = int(np.argmax(speeds))
        if speeds[pool] == 0.0:
            break
        shares[at, pool] = 1.0
        left[pool] -= asks
    return shares


POLICY = Preset(
    name="fifo-fast",
    summary="first come, first served on the fastest type with room, moving up in rounds",
    knobs=Knobs(
        order=Order.SHARES, preempt=Preempt.ROUNDS, backfill=Backfill.STRICT, round_s=360.0
    ),
    allocator=FastestFirst(),
)
