"""Refuses rounds in which a job could be stopped before it has made any progress.

A run with such rounds may never end, so they are refused when a twin is built and when its knobs
are changed on the way.
"""

from __future__ import annotations

from typing import Any

from flyball.core.errors import BadInput
from flyball.core.knobs import Knobs, Order, Preempt
from flyball.core.records import Records
from flyball.core.units import FOREVER_US, US_PER_S
from flyball.physics.compile import kernel

NEVER = int(Preempt.NEVER)
SHARES = int(Order.SHARES)


@kernel
def round_cost_us(clock: Any, pools: Any, knobs: Any) -> int:
    """Return how much of a round a job may spend on being stopped and started, -1 = no rounds.

    In rounds of target shares any job may be stopped at the end of each round, so its restart
    and the wake of its nodes count as well.
    """
    if knobs.preempt == NEVER:
        return -1
    cost_us = clock.checkpoint_us
    if knobs.order == SHARES:
        cost_us += clock.restart_us
        if knobs.sleep_us < FOREVER_US:
            longest = 0
            for pool_id in range(len(pools)):
                longest = max(longest, pools[pool_id].wake_us)
            cost_us += longest
    return int(cost_us)


def refuse_short_rounds(clock: Records, pools: Records, knobs: Knobs) -> None:
    """Refuse knobs whose rounds are not longer than what they cost a job.

    Raises:
        BadInput: they are not.
    """
    cost_of = getattr(round_cost_us, "py_func", round_cost_us)
    cost_s = int(cost_of(clock[0], pools, knobs.pack()[0])) / US_PER_S
    if knobs.round_s > cost_s:
        return
    cost = "a checkpoint"
    if knobs.order == Order.SHARES:
        cost = "a checkpoint, a restart and a wake together"
    raise BadInput(
        f"rounds of {knobs.round_s:g} s are not longer than {cost} ({cost_s:g} s): "
        "jobs might never progress",
        f"set round_s above {cost_s:g}",
    )
