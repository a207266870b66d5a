"""Future events in one heap: ends of running jobs, repairs of nodes, releases of deferred jobs.

A job that is preempted leaves its end behind in the heap, and one that tuners release early its
release; such a stale event is dropped when it comes to the top or when the heap is full.
"""

from __future__ import annotations

from typing import Any

from flyball.core.codes import Status, TwinEventKind
from flyball.core.records import HEAP_OFFSET
from flyball.core.units import FOREVER_US
from flyball.physics.compile import kernel
from flyball.schedule import heap

HELD, RUNNING = int(Status.HELD), int(Status.RUNNING)
END_EVENT, REPAIR_EVENT = int(TwinEventKind.END), int(TwinEventKind.REPAIR)
RELEASE_EVENT = int(TwinEventKind.RELEASE)
KIND_BITS = 48
"""Shift of the kind in an event's tie, kind * 2**48 + index, so that ends come before repairs."""


@kernel
def push_event(state: Any, when: int, kind: int, subject: int) -> None:
    """Add an event of a job or node (`subject`) at the instant `when`."""
    clock = state.clock[0]
    if HEAP_OFFSET + clock.event_count == len(state.events):
        compact_events(state)
    heap.push(
        state.events, HEAP_OFFSET, clock.event_count, when, (kind << KIND_BITS) + int(subject)
    )
    clock.event_count += 1


@kernel
def is_stale(state: Any, event: Any) -> bool:
    """Return whether an event is stale.

    An end is if its job was preempted, failed or changed speed since; a release if its job was
    released before.
    """
    kind = event.tie >> KIND_BITS
    if kind == END_EVENT:
        run_ = state.runs[event.tie]
        return bool(run_.status != RUNNING or run_.end_us != event.key)
    if kind == RELEASE_EVENT:
        run_ = state.runs[event.tie & ((1 << KIND_BITS) - 1)]
        return bool(run_.status != HELD or run_.defer_us != event.key)
    return False


@kernel
def next_event_us(state: Any) -> int:
    """Return when the next event is due; drop stale ones on the way."""
    clock = state.clock[0]
    while clock.event_count > 0 and is_stale(state, state.events[HEAP_OFFSET]):
        heap.drop_top(state.events, HEAP_OFFSET, clock.event_count)
        clock.event_count -= 1
    return int(state.events[HEAP_OFFSET].key) if clock.event_count > 0 else FOREVER_US


@kernel
def pop_event(state: Any) -> tuple:  # type: ignore[type-arg]
    """Remove the next event and return (kind, job or node)."""
    clock = state.clock[0]
    tie = state.events[HEAP_OFFSET].tie
    heap.drop_top(state.events, HEAP_OFFSET, clock.event_count)
    clock.event_count -= 1
    return tie >> KIND_BITS, tie & ((1 << KIND_BITS) - 1)


@kernel
def compact_events(state: Any) -> None:
    """Drop every stale event, to make room."""
    clock = state.clock[0]
    kept = 0
    for at in range(clock.event_count):
        event = state.events[HEAP_OFFSET + at]
        if not is_stale(state, event):
            target = state.events[HEAP_OFFSET + kept]
            target.key, target.tie = event.key, event.tie
            kept += 1
    heap.heapify(state.events, HEAP_OFFSET, kept)
    clock.event_count = kept
