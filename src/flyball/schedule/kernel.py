"""The decision: one compiled function for the twin and for live scheduling.

`decide` reads the state, starts the jobs that should start now (taking their devices in the
state and writing the starts into `state.plan`) and, in a round, preempts the jobs that should
give way. The caller carries the plan out: the twin by scheduling ends, a live loop through an
engine. It reads estimates only, never `work_us`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Reason
from flyball.core.knobs import Backfill, Order, Preempt, Starts
from flyball.physics.compile import entry, hot, kernel
from flyball.schedule.allocate import first_setup_us
from flyball.schedule.attained import promote_starved, promotes
from flyball.schedule.fair import start_fairly
from flyball.schedule.moves import move_up
from flyball.schedule.order import FAIR
from flyball.schedule.place import find, find_for
from flyball.schedule.preempt import preemption_round
from flyball.schedule.queue import (
    close_gaps,
    drop_first,
    first_shape,
    forget_failures,
    refill_window,
    uses_window,
)
from flyball.schedule.reserve import drop_reservation, reserve
from flyball.schedule.shares.rounds import share_round
from flyball.schedule.start import start

STRICT, EASY = int(Backfill.STRICT), int(Backfill.EASY)
ROUNDS = int(Preempt.ROUNDS)
SHARES = int(Order.SHARES)
ANY_TIME = int(Starts.ANY_TIME)
IN_ORDER, SKIPPED_AHEAD = int(Reason.IN_ORDER), int(Reason.SKIPPED_AHEAD)
BACKFILLED = int(Reason.BACKFILLED)
ONE = np.uint64(1)
ZERO = np.uint64(0)


@hot
def decide(state: Any, knobs: Any, now: int, is_round: bool) -> None:
    """Decide once, at one instant. The plan is `state.plan[: state.clock[0].actions]`.

    Args:
        state: the cluster; capacity and queue change as jobs are started.
        knobs: the only record of the packed knobs.
        now: microseconds.
        is_round: whether running jobs may be preempted this time.
    """
    clock = state.clock[0]
    clock.actions = 0
    clock.decisions += 1
    # 0. Policies of target shares have their own kind of round.
    if knobs.order == SHARES and is_round:
        share_round(state, knobs, now)
        clock.capacity_grew = 0
        return
    # 1. If capacity came back, what did not fit before may fit now.
    if clock.capacity_grew:
        forget_failures(state)
    # 2. Go through the queue and start what fits.
    if clock.pending > 0 and not only_rounds_start(knobs):
        if knobs.order == FAIR:
            start_fairly(state, knobs, now)
        elif not uses_window(knobs):
            start_heads(state, knobs, now)
        elif knobs.backfill == EASY:
            backfill(state, knobs, now)
        elif knobs.backfill == STRICT:
            start_in_order(state, knobs, bool(clock.capacity_grew), now)
        else:
            refill_window(state, knobs)
            scan_window(state, knobs, 0, False, bool(clock.capacity_grew), now)
    # 3. In a round, make room for jobs that are well ahead of running ones.
    released = False
    if is_round and knobs.preempt == ROUNDS and clock.pending > 0:
        released = preemption_round(state, knobs, now)
    # 4. Then let running jobs move to faster pools.
    if is_round and knobs.move_us > 0.0 and clock.running > 0:
        released = move_round(state, knobs, now) or released
    # 5. Room left over from a preemption counts as capacity that came back.
    clock.capacity_grew = 1 if released else 0


@kernel
def only_rounds_start(knobs: Any) -> bool:
    """Return whether no job may start between rounds."""
    if knobs.order != SHARES:
        return False
    return bool(knobs.backfill == STRICT or knobs.starts != ANY_TIME)


@hot
def start_heads(state: Any, knobs: Any, now: int) -> None:
    """Start the first job of each shape while it fits; skip those that do not, unless strict."""
    strict = knobs.backfill == STRICT
    while True:
        shape_id = first_shape(state, not strict, False)
        if shape_id < 0:
            return
        shape = state.shapes[shape_id]
        if shape.blocked:
            return
        top = state.queue[shape.begin]
        job_id, key = top.tie, top.key
        pool_id, fit, avoid = find(state, knobs, job_id, False, now)
        if pool_id >= 0:
            reason = SKIPPED_AHEAD if behind_blocked(state, key, job_id) else IN_ORDER
            drop_first(state, shape)
            start(state, knobs, job_id, pool_id, fit, avoid, now, reason, 0.0)
        else:
            shape.blocked = 1
            if strict:
                return


@kernel
def move_round(state: Any, knobs: Any, now: int) -> bool:
    """Move running jobs to faster pools, and start pending ones in the room that they leave.

    Returns:
        Whether any job was moved.
    """
    if not move_up(state, knobs, now):
        return False
    forget_failures(state)
    start_heads(state, knobs, now)
    return True


@kernel
def behind_blocked(state: Any, key: float, job_id: int) -> bool:
    """Return whether a job that does not fit is ahead of this one."""
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        if shape.blocked and shape.pending > 0:
            top = state.queue[shape.begin]
            if top.key < key or (top.key == key and top.tie < job_id):
                return True
    return False


@kernel
def backfill(state: Any, knobs: Any, now: int) -> None:
    """Start jobs in order while they fit, then those that do not delay the head (EASY)."""
    clock = state.clock[0]
    retry = bool(clock.capacity_grew)
    start_in_order(state, knobs, retry, now)
    if clock.window_count == 0:
        drop_reservation(state)
        return
    head = state.window[0].tie
    if retry or clock.reserved_job != head or clock.reserved_us <= now:
        reserve(state, head, now)
        forget_failures(state)
        retry = True
    scan_window(state, knobs, 1, True, retry, now)


@kernel
def start_in_order(state: Any, knobs: Any, retry: bool, now: int) -> None:
    """Start jobs from the front of the queue until one does not fit."""
    clock = state.clock[0]
    refill_window(state, knobs)
    at = 0
    while clock.window_count > 0:
        if at == clock.window_count:
            close_gaps(state, 0)
            refill_window(state, knobs)
            at = 0
            continue
        entry = state.window[at]
        if entry.tried and not retry:
            break
        pool_id, fit, avoid = find(state, knobs, entry.tie, False, now)
        if pool_id < 0:
            entry.tried = 1
            break
        start(state, knobs, entry.tie, pool_id, fit, avoid, now, IN_ORDER, 0.0)
        entry.tie = -1
        at += 1
    if at > 0:
        close_gaps(state, 0)
        refill_window(state, knobs)


@kernel
def scan_window(
    state: Any, knobs: Any, first: int, respect_head: bool, retry: bool, now: int
) -> None:
    """Scan the window from `first` and start the jobs that fit (and do not delay the head).

    A job that cannot start rules out the jobs of its shape with as much work left or more: they
    fit on no other devices, and are expected to end no earlier. So if the shortest job of each
    shape cannot start, no job can, and the scan is over. Jobs of such a shape are passed over
    without a look at their work: `could_start` has the bits of the others (see `is_among`).
    """
    clock = state.clock[0]
    if not retry and not clock.scan_due:
        return
    clock.scan_due = 0
    could_start = shapes_to_try(state, knobs, respect_head, now)
    if could_start == ZERO:
        return
    for shape_id in range(len(state.shapes)):
        state.shapes[shape_id].next_shortest_us = np.inf
    for at in range(first):  # not tried here, but perhaps in a later scan
        entry = state.window[at]
        shape = state.shapes[entry.shape_id]
        shape.next_shortest_us = min(shape.next_shortest_us, entry.left_us)
    first_gap = clock.window_count
    skipped = first > 0
    for at in range(first, clock.window_count):
        entry = state.window[at]
        if not is_among(could_start, entry.shape_id):
            entry.tried = 1
            skipped = True
            continue
        shape = state.shapes[entry.shape_id]
        if entry.left_us < shape.too_long_us and (retry or not entry.tried):
            pool_id, fit, avoid = find(state, knobs, entry.tie, respect_head, now)
            if pool_id >= 0:
                reason = IN_ORDER
                if skipped:
                    reason = BACKFILLED if respect_head else SKIPPED_AHEAD
                start(state, knobs, entry.tie, pool_id, fit, avoid, now, reason, 0.0)
                entry.tie = -1
                first_gap = min(first_gap, at)
                could_start &= shapes_to_try(state, knobs, respect_head, now)
                if could_start == ZERO:
                    break
                continue
            if entry.left_us >= 0.0:
                shape.too_long_us = entry.left_us
        entry.tried = 1
        skipped = True
        shape.next_shortest_us = min(shape.next_shortest_us, entry.left_us)
    for shape_id in range(len(state.shapes)):
        if is_among(could_start, shape_id):  # every job of the shape was looked at
            shape = state.shapes[shape_id]
            shape.shortest_us = shape.next_shortest_us
    if first_gap < clock.window_count:
        close_gaps(state, first_gap)


@kernel
def is_among(groups: Any, shape_id: int) -> bool:
    """Return whether the bit of a shape is set; shapes 64 apart share one."""
    return bool((groups >> np.uint64(shape_id & 63)) & ONE != ZERO)


@kernel
def shapes_to_try(state: Any, knobs: Any, respect_head: bool, now: int) -> Any:
    """Return bits of the shapes whose shortest job could start; rule out those where it cannot."""
    groups = ZERO
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        if shape.shortest_us < shape.too_long_us:
            left_us = max(0.0, shape.shortest_us)
            sample = state.jobs[shape.sample]
            setup = first_setup_us(state.clock[0], sample)
            if find_for(state, knobs, sample, left_us, setup, respect_head, now)[0] >= 0:
                groups |= ONE << np.uint64(shape_id & 63)
            else:
                shape.too_long_us = shape.shortest_us
    return groups


@entry
def decide_snapshot(state: Any, packed: Any, is_round: bool) -> None:
    """Decide at the state's present instant, for plain Python; knobs as packed.

    A live loop sets its rounds itself; `decide_now` has them where a replay has them.
    """
    now = state.clock[0].now_us
    if is_round and promotes(packed[0], 0):
        promote_starved(state, packed[0], now)
    decide(state, packed[0], now, is_round)


def decide_now(state: Any, packed: Any) -> None:
    """Decide at the state's present instant, in a round if it is a multiple of `round_us`.

    Not compiled itself: the decision takes long to compile, and is compiled once for both.
    """
    now_us, round_us = int(state.clock[0].now_us), int(packed[0].round_us)
    decide_snapshot(state, packed, now_us % round_us == 0)
