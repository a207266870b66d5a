"""place = random: random placement that is the same in every run of the same problem.

The n-th start of a run draws a number for every node and each of its devices by a hash of
(n, node, device). The hash works on 32 bits, so that plain Python and compiled code, which has
64, agree without overflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyball.physics.compile import kernel, lowest_bit
from flyball.schedule.nodes import NOWHERE, eligible, fits_on

BITS = 0xFFFFFFFF
FACTOR = 0x45D9F3B
NO_DRAW = 1 << 32
"""A number larger than any draw."""
ONE = np.uint64(1)
ZERO = np.uint64(0)


@kernel
def mixed(value: int) -> int:
    """Hash 32 bits to 32 bits, each of which depends on all bits of the input."""
    value &= BITS
    value = ((value ^ (value >> 16)) * FACTOR) & BITS
    value = ((value ^ (value >> 16)) * FACTOR) & BITS
    return value ^ (value >> 16)


@kernel
def draw(clock: Any, node_id: int) -> int:
    """Return the number drawn for a node at the next start."""
    return mixed(mixed(clock.starts) + node_id)


@kernel
def drawn_node(state: Any, job: Any, pool_id: int, avoid: bool) -> int:
    """Return the node with the lowest draw among those where the job fits now, or NOWHERE."""
    pool, shape, clock = state.pools[pool_id], state.shapes[job.shape_id], state.clock[0]
    best, least = NOWHERE, NO_DRAW
    for node_id in range(pool.first_node, pool.first_node + pool.nodes):
        node = state.nodes[node_id]
        if avoid and node.reserved_stamp == clock.reserved_stamp:
            continue
        if fits_on(state.devices, node, shape, job):
            number = draw(clock, node_id)
            if number < least:
                best, least = node_id, number
    return int(best)


@kernel
def drawn_devices(state: Any, job: Any, node_id: int) -> Any:
    """Return the devices with the lowest draws among those with room for a fractional job."""
    node = state.nodes[node_id]
    base = draw(state.clock[0], node_id)
    chosen = ZERO
    for _ in range(job.devices):
        best, least = -1, NO_DRAW
        rest = (node.free_mask | node.open_mask) & ~chosen
        while rest != ZERO:
            at = lowest_bit(rest)
            rest &= rest - ONE
            is_open = node.open_mask & (ONE << np.uint64(at)) != ZERO
            if is_open and not eligible(state.devices, node, at, job):
                continue
            number = mixed(base + 1 + at)
            if number < least:
                best, least = at, number
        chosen |= ONE << np.uint64(best)
    return chosen
