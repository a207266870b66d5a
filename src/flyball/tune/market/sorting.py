"""Sorts records of (key, tie) in place, and selects by weight, without allocating."""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel

ROUNDING = 1e-9
"""Part of a capacity by which steps that just fill it may seem to exceed it."""


@kernel
def sort(order: Any, count: int) -> None:
    """Sort the first `count` records by ascending (key, tie): a heap sort."""
    for root in range(count // 2 - 1, -1, -1):
        sink(order, root, count)
    for last in range(count - 1, 0, -1):
        swap(order[0], order[last])
        sink(order, 0, last)


@kernel
def swap(a: Any, b: Any) -> None:
    """Swap two records."""
    key, tie = a.key, a.tie
    a.key, a.tie = b.key, b.tie
    b.key, b.tie = key, tie


@kernel
def after(a: Any, b: Any) -> bool:
    """Return whether record a comes after record b."""
    return bool(a.key > b.key or (a.key == b.key and a.tie > b.tie))


@kernel
def sink(order: Any, root: int, count: int) -> None:
    """Move a record down a heap with the last one on top."""
    while True:
        child = 2 * root + 1
        if child >= count:
            return
        if child + 1 < count and after(order[child + 1], order[child]):
            child += 1
        if not after(order[child], order[root]):
            return
        swap(order[root], order[child])
        root = child


@kernel
def threshold(steps: Any, count: int, capacity: float) -> float:
    """Return the slope of the first step that exceeds a capacity, steepest first; 0 = none does.

    Args:
        steps: reordered.
        count: number of steps.
        capacity: devices there are.
    """
    low, high, left = 0, count, capacity * (1.0 + ROUNDING)
    # Every step before `low` fits; every step from `high` on comes after the one sought.
    while low < high:
        pivot = middle(steps, low, high)
        steeper, equal = split(steps, low, high, pivot)
        devices = 0.0
        for at in range(low, steeper):
            devices += steps[at].devices
        if devices > left:
            high = steeper
            continue
        left -= devices
        for at in range(steeper, equal):
            left -= steps[at].devices
            if left < 0.0:
                return float(pivot)
        low = equal
    return 0.0


@kernel
def middle(steps: Any, low: int, high: int) -> float:
    """Return the median slope of the first, the middle and the last step of a range."""
    a, b, c = steps[low].slope, steps[(low + high) // 2].slope, steps[high - 1].slope
    return float(max(min(a, b), min(max(a, b), c)))


@kernel
def split(steps: Any, low: int, high: int, pivot: float) -> tuple[int, int]:
    """Order a range into steps steeper than a slope, equal to it and less steep."""
    at, steeper, less = low, low, high
    while at < less:
        slope = steps[at].slope
        if slope > pivot:
            exchange(steps[at], steps[steeper])
            steeper += 1
            at += 1
        elif slope < pivot:
            less -= 1
            exchange(steps[at], steps[less])
        else:
            at += 1
    return steeper, less


@kernel
def exchange(a: Any, b: Any) -> None:
    """Swap two steps."""
    slope, devices = a.slope, a.devices
    a.slope, a.devices = b.slope, b.devices
    b.slope, b.devices = slope, devices
