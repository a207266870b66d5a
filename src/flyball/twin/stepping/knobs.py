"""Changes knobs in compiled code where no array of the state must grow or be regrouped.

The result is that of `twin.refit.rebuild`, bit for bit: the same keys, accounts settled at the
same instant, the reservation dropped. Only the work differs. Pending jobs get new keys where they
are, and only if some knob that keys depend on has changed.
"""

from __future__ import annotations

from typing import Any

from flyball.core.knobs import Order, Place
from flyball.physics.compile import entry, kernel, prefetch
from flyball.physics.energy import touch
from flyball.schedule import heap
from flyball.schedule.order import (
    FAIR,
    HISTORY,
    INDEX,
    SHARES,
    SUBMIT,
    aged,
    index_s,
    key_of,
    size_weight,
)
from flyball.schedule.queue import refill_window, uses_window
from flyball.schedule.reserve import drop_reservation
from flyball.twin.round_length import round_cost_us

ATTAINED = int(Order.ATTAINED)
FGD = int(Place.FGD)
AHEAD = 12
"""Entries by which a pass over the queue is ahead of itself in fetching the jobs' records."""


@kernel
def remembers(knobs: Any) -> bool:
    """Return whether the order needs a memo for every job, as `Knobs.remembers` does."""
    promotes = knobs.order == ATTAINED and knobs.promote > 0.0
    return bool(promotes or knobs.order == FAIR or knobs.order == HISTORY)


@kernel
def needs_rebuild(state: Any, old: Any, new: Any) -> bool:
    """Return whether the new knobs need other arrays than the state has."""
    if (old.order == SHARES) != (new.order == SHARES):
        return True
    if new.round_us <= round_cost_us(state.clock[0], state.pools, new):
        return True  # which refuses it
    if old.order != new.order and (remembers(new) or len(state.memos) > 1):
        return True
    if remembers(new) and not remembers(old):
        return True
    stretched = (
        old.order_quantile != new.order_quantile or old.backfill_quantile != new.backfill_quantile
    )
    if stretched and len(state.spreads) > 0:
        return True
    if (new.place == FGD) != (len(state.scores) > 0):
        return True
    return bool(min(new.depth, len(state.jobs)) > len(state.window))


@kernel
def keys_differ(old: Any, new: Any) -> bool:
    """Return whether a pending job's key may differ between two settings."""
    if old.order != new.order or old.ageing != new.ageing or old.priority_s != new.priority_s:
        return True
    if new.order == ATTAINED:
        return bool(old.attained_us != new.attained_us or old.attained2_us != new.attained2_us)
    return bool(
        new.order == INDEX
        and (
            old.index_size != new.index_size
            or old.index_slope != new.index_slope
            or old.index_floor != new.index_floor
        )
    )


@kernel
def empty_window(state: Any) -> None:
    """Put the jobs of the window back into the heaps, out of order."""
    clock = state.clock[0]
    for at in range(clock.window_count):
        entry_ = state.window[at]
        shape = state.shapes[entry_.shape_id]
        place = state.queue[shape.begin + shape.pending]
        place.key, place.tie = entry_.key, entry_.tie
        shape.pending += 1
    clock.window_count = 0


@kernel
def reorder(state: Any, new: Any) -> None:
    """Give every pending job its key under the new knobs, and order the queue by it."""
    now = state.clock[0].now_us
    empty_window(state)
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        last = shape.begin + shape.pending
        weight = size_weight(shape.devices, shape.milli, new) if new.order == INDEX else 1.0
        for at in range(shape.begin, last):
            coming = state.queue[min(at + AHEAD, last - 1)].tie
            prefetch(state.jobs, coming, 1)
            if new.order != SUBMIT:
                prefetch(state.jobs, coming, 0)
                prefetch(state.runs, coming, 0)
            place = state.queue[at]
            job, run = state.jobs[place.tie], state.runs[place.tie]
            if new.order == INDEX:
                place.key = aged(index_s(job, run, False, new, weight, now), job, new)
            else:
                memo = state.memos[place.tie if len(state.memos) > 1 else 0]
                place.key = key_of(job, run, memo, False, new, now)
        heap.heapify(state.queue, shape.begin, shape.pending)
    if uses_window(new):
        refill_window(state, new)


@kernel
def change(state: Any, old: Any, new: Any) -> bool:
    """Go over to other knobs; False if that needs other arrays, and nothing was changed."""
    if needs_rebuild(state, old, new):
        return False
    clock = state.clock[0]
    # 1. Accounts are settled, as the sleep of idle nodes may change.
    for node_id in range(len(state.nodes)):
        touch(state, node_id, clock.now_us)
        node = state.nodes[node_id]
        if new.sleep_us != old.sleep_us and node.idle_since_us >= 0:
            node.sleeps_us = node.idle_since_us + new.sleep_us
    # 2. The queue, if its order or its window changes.
    if old.order != new.order:
        memo = state.memos[0]
        memo.predicted_us, memo.promoted_us, memo.queued_us = 0.0, 0.0, clock.now_us
    windowed = uses_window(new)
    resized = windowed and old.depth != new.depth
    if keys_differ(old, new) or windowed != uses_window(old) or resized:
        reorder(state, new)
    # 3. What was decided by the old knobs no longer holds.
    drop_reservation(state)
    clock.capacity_grew = 1
    return True


@entry
def change_knobs(state: Any, packed: Any, new: Any) -> bool:
    """Go over to other knobs, packed; False if only a rebuild can."""
    return change(state, packed[0], new[0])
