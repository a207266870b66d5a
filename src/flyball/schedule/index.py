"""Bitmaps that find a node by its number of whole free devices.

Each pool has one bitmap per free count f = 0..capacity over its nodes, laid out in
`state.bitmaps` as `[nodes in it, summary words, words]`. A summary bit is set if a 64-node
word is not empty, so finding the lowest node of a bitmap takes two look-ups even with ten
thousand nodes. One word in front of them has bit f - 1 set if some node has f whole free
devices. Nodes that are down are in no bitmap.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.physics.compile import kernel, lowest_bit

ONE = np.uint64(1)
ZERO = np.uint64(0)


def summary_words(words: int) -> int:
    """Return how many summary words have a bit for each of `words`."""
    return (words + 63) // 64


def index_size(words: int, capacity: int) -> int:
    """Return the length of a pool's part of the index."""
    return 1 + (capacity + 1) * (1 + summary_words(words) + words)


@kernel
def base_of(pool: Any, free: int) -> int:
    """Return the index where the pool's bitmap for this free count begins."""
    return int(pool.index + 1 + free * (1 + (pool.words + 63) // 64 + pool.words))


@kernel
def insert(index: Any, pool: Any, free: int, local: int) -> None:
    """Record that the pool's node `local` has this many whole free devices."""
    base = base_of(pool, free)
    word = local >> 6
    summary = base + 1 + (word >> 6)
    words = base + 1 + ((pool.words + 63) // 64)
    index[base] += ONE
    if free > 0:
        index[pool.index] |= ONE << np.uint64(free - 1)
    index[summary] |= ONE << np.uint64(word & 63)
    index[words + word] |= ONE << np.uint64(local & 63)


@kernel
def discard(index: Any, pool: Any, free: int, local: int) -> None:
    """Undo `insert`."""
    base = base_of(pool, free)
    word = local >> 6
    words = base + 1 + ((pool.words + 63) // 64)
    index[base] -= ONE
    if free > 0 and index[base] == ZERO:
        index[pool.index] &= ~(ONE << np.uint64(free - 1))
    index[words + word] &= ~(ONE << np.uint64(local & 63))
    if index[words + word] == ZERO:
        index[base + 1 + (word >> 6)] &= ~(ONE << np.uint64(word & 63))


@kernel
def free_counts(index: Any, pool: Any, least: int) -> Any:
    """Return the free counts that occur, as bits: bit i stands for `least` + i whole devices."""
    return index[pool.index] >> np.uint64(least - 1)


@kernel
def lowest(index: Any, pool: Any, free: int) -> int:
    """Return the lowest node of the pool with exactly this many whole free devices, or -1."""
    base = base_of(pool, free)
    if index[base] == ZERO:
        return -1
    summaries = (pool.words + 63) // 64
    for s in range(summaries):
        summary = index[base + 1 + s]
        if summary != ZERO:
            word = 64 * s + lowest_bit(summary)
            return 64 * word + lowest_bit(index[base + 1 + summaries + word])
    return -1


@kernel
def next_after(index: Any, pool: Any, free: int, local: int) -> int:
    """Return the next node after `local` (-1 to begin) with exactly `free` free devices, or -1."""
    base = base_of(pool, free)
    if index[base] == ZERO:
        return -1
    words = base + 1 + (pool.words + 63) // 64
    begin = local + 1
    word = begin >> 6
    if word < pool.words:
        rest = (index[words + word] >> np.uint64(begin & 63)) << np.uint64(begin & 63)
        while True:
            if rest != ZERO:
                return 64 * word + lowest_bit(rest)
            word += 1
            if word >= pool.words:
                break
            rest = index[words + word]
    return -1
