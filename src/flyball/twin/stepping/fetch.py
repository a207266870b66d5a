"""Fetches a twin's memory into the cache while the twins before it in a batch are stepped.

Between two steps of a twin all others are stepped, so little of it is left in the cache, and an
event would wait for memory again and again: on 64 GPUs that takes as long as the events. Fetching
changes no result.
"""

from __future__ import annotations

from typing import Any

from flyball.core.records import CLOCK, HEAP_OFFSET, NODE, SHAPE
from flyball.physics.compile import LINE_BYTES, kernel, prefetch

MOST_RECORDS = 64
"""Nodes, shapes and ends of jobs beyond so many are not fetched: large twins run long enough."""
ARRIVALS = 12
"""Jobs that are submitted next."""
ENTRIES_PER_LINE = 4
"""Events or places in a queue in a cache line."""
CLOCK_LINES = -(-CLOCK.itemsize // LINE_BYTES)
NODE_BYTES, SHAPE_BYTES = NODE.itemsize, SHAPE.itemsize


@kernel
def fetch_tables(state: Any) -> None:
    """Fetch what is in one place: clock, nodes, shapes and the next events."""
    for line in range(CLOCK_LINES):
        prefetch(state.clock, 0, line)
    for line in range(min(len(state.nodes), MOST_RECORDS) * NODE_BYTES // LINE_BYTES + 1):
        prefetch(state.nodes, 0, line)
    for line in range(min(len(state.shapes), MOST_RECORDS) * SHAPE_BYTES // LINE_BYTES + 1):
        prefetch(state.shapes, 0, line)
    for line in range(MOST_RECORDS // ENTRIES_PER_LINE):
        prefetch(state.events, HEAP_OFFSET, line)


@kernel
def fetch_jobs(state: Any) -> None:
    """Fetch the jobs that end or arrive next, and the first places of the queue."""
    clock = state.clock[0]
    for at in range(HEAP_OFFSET, HEAP_OFFSET + min(clock.event_count, MOST_RECORDS)):
        job_id = state.events[at].tie
        for line in range(3):
            prefetch(state.runs, job_id, line)
        for line in range(2):
            prefetch(state.jobs, job_id, line)
    for job_id in range(clock.next_job, clock.next_job + ARRIVALS):
        for line in range(2):
            prefetch(state.runs, job_id, line)
            prefetch(state.jobs, job_id, line)
    for shape_id in range(min(len(state.shapes), MOST_RECORDS)):
        shape = state.shapes[shape_id]
        for line in range((shape.pending + ENTRIES_PER_LINE - 1) // ENTRIES_PER_LINE):
            prefetch(state.queue, shape.begin, line)
