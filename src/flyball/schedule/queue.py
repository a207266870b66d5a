"""The queue: a heap per shape, and for scans that look past a head, a sorted window.

Jobs of one shape ask for the same thing, so only the first of each shape need be tried:
the queue is never sorted as a whole. Backfill and the hold rule judge jobs one by one;
for them the first `depth` pending jobs stand in order in the window and the rest in the
heaps. Everything in the window comes before everything in the heaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.core.codes import Status
from flyball.core.knobs import Backfill, Place
from flyball.physics.compile import hot, kernel
from flyball.schedule import heap
from flyball.schedule.history import predict
from flyball.schedule.order import HISTORY, guess, key_of, memo_of

EASY = int(Backfill.EASY)
HOLD = int(Place.HOLD)
PENDING = int(Status.PENDING)


@kernel
def uses_window(knobs: Any) -> bool:
    return bool(knobs.backfill == EASY or knobs.place == HOLD)


@hot
def enqueue(state: Any, knobs: Any, job_id: int, now: int) -> None:
    """Put a job into the queue."""
    job, run, clock = state.jobs[job_id], state.runs[job_id], state.clock[0]
    memo = memo_of(state, job_id)
    if run.status != PENDING:
        memo.queued_us = now
    if knobs.order == HISTORY:
        predict(state, job_id)
    run.status = PENDING
    key = key_of(job, run, memo, False, knobs, now)
    if uses_window(knobs) and belongs_in_window(state, key, job_id):
        insert_in_window(state, knobs, key, job_id)
    else:
        push_to_heap(state, key, job_id)
    clock.pending += 1


@kernel
def push_to_heap(state: Any, key: float, job_id: int) -> None:
    shape = state.shapes[state.jobs[job_id].shape_id]
    heap.push(state.queue, shape.begin, shape.pending, key, job_id)
    shape.pending += 1


@kernel
def belongs_in_window(state: Any, key: float, job_id: int) -> bool:
    """Whether a new job comes before something in the window, or nothing is behind it."""
    clock = state.clock[0]
    if clock.window_count == clock.pending:
        return True
    if clock.window_count == 0:
        return False
    last = state.window[clock.window_count - 1]
    return bool(key < last.key or (key == last.key and job_id < last.tie))


@kernel
def insert_in_window(state: Any, knobs: Any, key: float, job_id: int) -> None:
    """Put a job in its place; what no longer fits the window goes to its heap."""
    clock, window = state.clock[0], state.window
    if clock.window_count == min(knobs.depth, len(window)):
        last = window[clock.window_count - 1]
        if last.key < key or (last.key == key and last.tie < job_id):
            push_to_heap(state, key, job_id)
            return
        push_to_heap(state, last.key, last.tie)
        clock.window_count -= 1
    at = clock.window_count
    while at > 0:
        before = window[at - 1]
        if before.key < key or (before.key == key and before.tie < job_id):
            break
        copy_entry(window, at - 1, at)
        at -= 1
    fill_entry(state, at, key, job_id)
    clock.window_count += 1


@kernel
def fill_entry(state: Any, at: int, key: float, job_id: int) -> None:
    """Write a job that was not tried yet into the window."""
    job, run, entry = state.jobs[job_id], state.runs[job_id], state.window[at]
    entry.key, entry.tie, entry.shape_id, entry.tried = key, job_id, job.shape_id, 0
    entry.left_us = -1.0
    if run.attempt == 0:
        entry.left_us = guess(job, run.done_us) - run.done_us
    shape = state.shapes[job.shape_id]
    shape.shortest_us = min(shape.shortest_us, entry.left_us)
    shape.sample = job_id
    state.clock[0].scan_due = 1


@kernel
def copy_entry(window: Any, source: int, target: int) -> None:
    window[target] = window[source]


@kernel
def close_gaps(state: Any) -> None:
    """Drop the window's entries whose job was started (tie -1)."""
    clock, window = state.clock[0], state.window
    kept = 0
    for at in range(clock.window_count):
        if window[at].tie >= 0:
            if kept != at:
                copy_entry(window, at, kept)
            kept += 1
    clock.window_count = kept


@kernel
def first_shape(state: Any, skip_blocked: bool, skip_passed: bool) -> int:
    """The shape whose first job comes first of all, or -1."""
    best = -1
    best_key, best_tie = 0.0, 0
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        if shape.pending == 0:
            continue
        if (skip_blocked and shape.blocked) or (skip_passed and shape.passed):
            continue
        top = state.queue[shape.begin]
        if best < 0 or top.key < best_key or (top.key == best_key and top.tie < best_tie):
            best, best_key, best_tie = shape_id, top.key, top.tie
    return best


@kernel
def refill_window(state: Any, knobs: Any) -> None:
    """Bring jobs from the heaps until the window is full."""
    clock = state.clock[0]
    full = min(knobs.depth, len(state.window))
    while clock.window_count < full and clock.window_count < clock.pending:
        shape = state.shapes[first_shape(state, False, False)]
        top = state.queue[shape.begin]
        fill_entry(state, clock.window_count, top.key, top.tie)
        clock.window_count += 1
        drop_first(state, shape)


@kernel
def drop_first(state: Any, shape: Any) -> None:
    """Take the first job of a shape out of its heap."""
    heap.drop_top(state.queue, shape.begin, shape.pending)
    shape.pending -= 1


@kernel
def remove(state: Any, job_id: int) -> bool:
    """Take a job out of the queue wherever it is (by search); False if it is not there."""
    clock, window = state.clock[0], state.window
    for at in range(clock.window_count):
        if window[at].tie == job_id:
            for behind in range(at + 1, clock.window_count):
                copy_entry(window, behind, behind - 1)
            clock.window_count -= 1
            return True
    shape = state.shapes[state.jobs[job_id].shape_id]
    if heap.remove(state.queue, shape.begin, shape.pending, job_id):
        shape.pending -= 1
        return True
    return False


@kernel
def forget_failures(state: Any) -> None:
    """Capacity grew: whatever did not fit before may fit now."""
    for shape_id in range(len(state.shapes)):
        state.shapes[shape_id].blocked = 0
        state.shapes[shape_id].too_long_us = np.inf
