"""Heaps over a range of records with `key` and `tie`: smallest (key, tie) first.

A node has four children: half the levels of a binary heap, and the four are adjacent in
memory. The event list and the queues use the same code.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel


@kernel
def push(heap: Any, begin: int, size: int, key: Any, tie: int) -> None:
    """Add an entry to the heap of `size` entries at `begin`; it then has one more."""
    hole = size
    while hole > 0:
        parent = (hole - 1) >> 2
        above = heap[begin + parent]
        if above.key < key or (above.key == key and above.tie < tie):
            break
        below = heap[begin + hole]
        below.key = above.key
        below.tie = above.tie
        hole = parent
    entry = heap[begin + hole]
    entry.key = key
    entry.tie = tie


@kernel
def drop_top(heap: Any, begin: int, size: int) -> None:
    """Remove the first entry of the heap of `size` entries; it then has one less."""
    last = heap[begin + size - 1]
    sift_down(heap, begin, size - 1, 0, last.key, last.tie)


@kernel
def sift_down(heap: Any, begin: int, size: int, hole: int, key: Any, tie: int) -> None:
    """Put (key, tie) into the hole at index `hole`, or as far below it as the order requires."""
    while True:
        child = 4 * hole + 1
        if child >= size:
            break
        best = child
        for other in range(child + 1, min(child + 4, size)):
            a = heap[begin + other]
            b = heap[begin + best]
            if a.key < b.key or (a.key == b.key and a.tie < b.tie):
                best = other
        below = heap[begin + best]
        if key < below.key or (key == below.key and tie < below.tie):
            break
        target = heap[begin + hole]
        target.key = below.key
        target.tie = below.tie
        hole = best
    if size > 0:
        entry = heap[begin + hole]
        entry.key = key
        entry.tie = tie


@kernel
def heapify(heap: Any, begin: int, size: int) -> None:
    """Turn the `size` entries at `begin` into a heap."""
    for hole in range((size - 2) >> 2, -1, -1):
        entry = heap[begin + hole]
        sift_down(heap, begin, size, hole, entry.key, entry.tie)


@kernel
def remove(heap: Any, begin: int, size: int, tie: int) -> bool:
    """Remove the entry with this tie by linear search; False if there is none."""
    for at in range(size):
        if heap[begin + at].tie == tie:
            last = heap[begin + size - 1]
            key, moved = last.key, last.tie
            if at < size - 1:
                heap[begin + at].key = key
                heap[begin + at].tie = moved
                heapify(heap, begin, size - 1)
            return True
    return False
