"""Promotes jobs that starve in a lower queue (order = attained, knob `promote`)."""

from __future__ import annotations

from typing import Any

from flyball.core.knobs import Order, Preempt
from flyball.physics.compile import kernel
from flyball.schedule import heap
from flyball.schedule.order import attained_us, demotions, key_of, memo_of

ATTAINED = int(Order.ATTAINED)
ROUNDS = int(Preempt.ROUNDS)


@kernel
def promotes(knobs: Any, now: int) -> bool:
    """Return whether starved jobs are promoted at this instant."""
    in_rounds = knobs.preempt == ROUNDS and now % knobs.round_us == 0
    return bool(knobs.order == ATTAINED and knobs.promote > 0.0 and in_rounds)


@kernel
def promote_starved(state: Any, knobs: Any, now: int) -> None:
    """Move pending jobs that waited too long for what they received to the first queue."""
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        moved = False
        for at in range(shape.begin, shape.begin + shape.pending):
            place = state.queue[at]
            job, run, memo = state.jobs[place.tie], state.runs[place.tie], memo_of(state, place.tie)
            service_us = attained_us(job, run, memo, False, now)
            waited_us = (now - memo.queued_us) * job.devices * job.milli / 1000
            starved = waited_us >= knobs.promote * service_us
            if starved and demotions(knobs, service_us) > 0:
                memo.promoted_us = run.service_us
                place.key = key_of(job, run, memo, False, knobs, now)
                moved = True
        if moved:
            heap.heapify(state.queue, shape.begin, shape.pending)
