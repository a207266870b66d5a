"""Writes the resource pattern and the queue's histogram of many twins, in compiled code.

One pass over the nodes with their running jobs, and one over the pending jobs. Only what a
scheduler can see is read: estimates, never true durations. `spaces.LAYOUT` says what the numbers
mean.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from flyball.core.state import State
from flyball.learn.env.spaces import (
    CLASSES,
    LENGTHS_S,
    NODE_STATES,
    RELEASE_S,
    RELEASES,
    SIZES,
    TYPES_SEEN,
    Floats,
)
from flyball.physics.compile import bit_count, entry, kernel
from flyball.physics.energy import asleep
from flyball.schedule.order import doubled, progress
from flyball.twin.stepping.desk import open_desk
from flyball.twin.stepping.observe import pool_rank

IDLE, ASLEEP, PARTLY, FULL, DOWN = range(len(NODE_STATES))
PATTERN = len(NODE_STATES) * TYPES_SEEN * RELEASES
"""Numbers of the pattern; the queue's come behind it, then the mean and dispersion of use."""
LENGTHS = len(LENGTHS_S) + 1
QUEUE = (len(SIZES) + 1) * CLASSES * LENGTHS
MEAN, DISPERSION = PATTERN + QUEUE, PATTERN + QUEUE + 1
PATTERN_ROW = PATTERN + QUEUE + 2
"""Length of a row."""
LATER = RELEASES - 1
ONE = np.uint64(1)


@kernel
def release_column(left_us: float) -> int:
    """Return the column of an expected time to a release."""
    column = 1
    while column < LATER and left_us > 1e6 * RELEASE_S[column]:
        column += 1
    return column


@kernel
def left_of(state: Any, job_id: int, now: int) -> float:
    """Return the estimated time to the end of a running job."""
    job, run = state.jobs[job_id], state.runs[job_id]
    if run.rate <= 0.0:
        return 1e18
    done_us = run.done_us + progress(run, now)
    left_us = (doubled(job.estimate_us, done_us) - done_us) / run.rate
    return float(max(0, run.ready_us - now) + left_us)


@kernel
def add_node(state: Any, node_id: int, rank: int, now: int, out: Any) -> None:
    """Add the devices of a node to the pattern."""
    node = state.nodes[node_id]
    capacity = state.pools[node.pool].capacity
    first = rank * RELEASES
    if node.down:
        out[DOWN * TYPES_SEEN * RELEASES + first + LATER] += capacity
        return
    if node.idle_since_us >= 0:
        kind = ASLEEP if asleep(node, now) else IDLE
        out[kind * TYPES_SEEN * RELEASES + first] += capacity
        return
    first += (PARTLY if node.free > 0 else FULL) * TYPES_SEEN * RELEASES
    out[first] += node.free
    row_id = node.first_row
    while row_id >= 0:
        row = state.rows[row_id]
        column = release_column(left_of(state, row.job, now))
        out[first + column] += bit_count(row.mask) * row.milli / 1000
        row_id = row.sibling


@kernel
def add_pool(state: Any, pool_id: int, now: int, out: Any) -> None:
    """Write a pool's part of the pattern, and add the use of its nodes."""
    pool, rank = state.pools[pool_id], pool_rank(state, pool_id)
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node = state.nodes[node_id]
        if not node.down:
            used = node.used_milli / (1000.0 * pool.capacity)
            out[MEAN] += used
            out[DISPERSION] += used * used
        if rank < TYPES_SEEN:
            add_node(state, node_id, rank, now, out)
    if rank < TYPES_SEEN:
        devices = float(pool.nodes * pool.capacity)
        for kind in range(len(NODE_STATES)):
            first = (kind * TYPES_SEEN + rank) * RELEASES
            for at in range(first, first + RELEASES):
                out[at] /= devices


@kernel
def add_pending(state: Any, job_id: int, out: Any) -> None:
    """Add a pending job to the histogram of the queue."""
    job, done_us = state.jobs[job_id], state.runs[job_id].done_us
    devices = job.devices * job.milli / 1000
    left_us = doubled(job.estimate_us, done_us) - done_us
    size, length = 0, 0
    while size < len(SIZES) and devices > SIZES[size]:
        size += 1
    while length < len(LENGTHS_S) and left_us > 1e6 * LENGTHS_S[length]:
        length += 1
    kind = job.kind if 0 <= job.kind < CLASSES - 1 else CLASSES - 1
    out[PATTERN + (size * CLASSES + kind) * LENGTHS + length] += devices


@kernel
def write_pattern(state: Any, now: int, out: Any) -> None:
    """Write the row of a state: pattern, queue, mean and dispersion of the nodes' use."""
    for at in range(PATTERN_ROW):
        out[at] = 0.0
    devices, up = 0.0, 0
    for pool_id in range(len(state.pools)):
        add_pool(state, pool_id, now, out)
        devices += state.pools[pool_id].nodes * state.pools[pool_id].capacity
    for node_id in range(len(state.nodes)):
        up += 0 if state.nodes[node_id].down else 1
    if up > 0:
        out[MEAN] /= up
        out[DISPERSION] = math.sqrt(max(0.0, out[DISPERSION] / up - out[MEAN] * out[MEAN]))
    for at in range(state.clock[0].window_count):
        add_pending(state, state.window[at].tie, out)
    for shape_id in range(len(state.shapes)):
        shape = state.shapes[shape_id]
        for at in range(shape.begin, shape.begin + shape.pending):
            add_pending(state, state.queue[at].tie, out)
    for at in range(PATTERN, PATTERN + QUEUE):
        out[at] = math.log1p(out[at] / devices)


@entry
def pattern_of_many(rows: Any, now: Any, out: Any) -> None:
    """Write the rows of several twins, given by their desks.

    Args:
        rows: of the desks.
        now: the instant of each twin.
        out: a row per twin.
    """
    for at in range(len(now)):
        state, _packed, _ledger = open_desk(rows, at)
        write_pattern(state, now[at], out[at])


@entry
def pattern_at(state: Any, now: int, out: Any) -> None:
    """Write the row of one state."""
    write_pattern(state, now, out)


def pattern_of(state: State, now_us: int) -> Floats:
    """Return the row of one state."""
    out = np.zeros(PATTERN_ROW)
    pattern_at(state, now_us, out)
    return out
