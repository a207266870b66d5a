"""A heap of ranks: the highest (first, second) on top, then the lowest job.

It occupies the range of `state.ranking` that begins at `base`.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel


@kernel
def comes_before(a: Any, b: Any) -> bool:
    """Return whether rank a is above rank b."""
    if a.first != b.first:
        return bool(a.first > b.first)
    if a.second != b.second:
        return bool(a.second > b.second)
    return bool(a.job < b.job)


@kernel
def swap(ranks: Any, i: int, j: int) -> None:
    """Swap two ranks."""
    a, b = ranks[i], ranks[j]
    first, second, job = a.first, a.second, a.job
    a.first, a.second, a.job = b.first, b.second, b.job
    b.first, b.second, b.job = first, second, job


@kernel
def sift_down(ranks: Any, base: int, count: int, at: int) -> None:
    """Move the entry at `at` down to its place."""
    while True:
        child = 2 * at + 1
        if child >= count:
            return
        other = child + 1
        if other < count and comes_before(ranks[base + other], ranks[base + child]):
            child = other
        if not comes_before(ranks[base + child], ranks[base + at]):
            return
        swap(ranks, base + child, base + at)
        at = child


@kernel
def heapify(ranks: Any, base: int, count: int) -> None:
    """Turn the `count` ranks at `base` into a heap."""
    for at in range(count // 2 - 1, -1, -1):
        sift_down(ranks, base, count, at)


@kernel
def push(ranks: Any, base: int, count: int, first: float, second: float, job: int) -> None:
    """Add a rank to a heap of `count`."""
    at = count
    entry = ranks[base + at]
    entry.first, entry.second, entry.job = first, second, job
    while at > 0:
        parent = (at - 1) // 2
        if not comes_before(ranks[base + at], ranks[base + parent]):
            return
        swap(ranks, base + at, base + parent)
        at = parent


@kernel
def drop_top(ranks: Any, base: int, count: int) -> None:
    """Remove the top of a heap of `count`."""
    if count > 1:
        swap(ranks, base, base + count - 1)
        sift_down(ranks, base, count - 1, 0)
