"""The queue: a heap per shape, and a sorted window for scans that go past the head.

Jobs of one shape make the same request, so only the first of each shape need be tried and
the whole queue is never sorted. Backfill and the hold rule check jobs one by one; for them
the first `depth` pending jobs are in the window, in order, and the rest in the heaps. All
jobs in the window are ahead of all jobs in the heaps.
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
    """Return whether jobs are checked one by one, so that the sorted window is needed."""
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
    """Add a job to the heap of its shape."""
    shape = state.shapes[state.jobs[job_id].shape_id]
    heap.push(state.queue, shape.begin, shape.pending, key, job_id)
    shape.pending += 1


@kernel
def belongs_in_window(state: Any, key: float, job_id: int) -> bool:
    """Return whether a new job is ahead of one in the window, or the heaps are empty."""
    clock = state.clock[0]
    if clock.window_count == clock.pending:
        return True
    if clock.window_count == 0:
        return False
    last = state.window[clock.window_count - 1]
    return bool(key < last.key or (key == last.key and job_id < last.tie))


@kernel
def insert_in_window(state: Any, knobs: Any, key: float, job_id: int) -> None:
    """Insert a job in order; the last one goes to its heap if the window is full."""
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
    """Write a job that was not tried yet into a window entry."""
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
def close_gaps(state: Any, first: int) -> None:
    """Drop the window's entries whose job was started (tie -1); there are none before `first`."""
    clock, window = state.clock[0], state.window
    kept = first
    for at in range(first, clock.window_count):
        if window[at].tie >= 0:
            if kept != at:
                copy_entry(window, at, kept)
            kept += 1
    clock.window_count = kept


@kernel
def first_shape(state: Any, skip_blocked: bool, skip_passed: bool) -> int:
    """Return the shape whose first job is first of all, or -1."""
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
    """Move jobs from the heaps into the window until it is full."""
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
    """Take a job out of the queue by linear search; False if it is not there."""
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
    """Clear what is remembered about jobs that did not fit, because capacity grew."""
    for shape_id in range(len(state.shapes)):
        state.shapes[shape_id].blocked = 0
        state.shapes[shape_id].too_long_us = np.inf
