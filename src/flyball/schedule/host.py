"""Host cores and host memory: what a job takes of a node in addition to its devices.

A job states its total demand. On a node that gives `count` of its `devices` it takes that
share of the demand, rounded up; a job without devices takes all of it. Jobs that state
nothing take nothing, and their placement skips the host checks.
"""

from __future__ import annotations

from typing import Any

from flyball.core.units import FOREVER_US
from flyball.physics.compile import bit_count, kernel
from flyball.schedule.order import expected_end


@kernel
def share_of(demand: int, count: int, devices: int) -> int:
    """Return the part of the demand that goes with `count` of a gang's `devices`."""
    if devices == 0:
        return demand
    return (demand * count + devices - 1) // devices


@kernel
def asks_host(shape: Any) -> bool:
    """Return whether jobs of this shape state any demand on hosts."""
    return bool(shape.cpu_milli > 0 or shape.host_mib > 0)


@kernel
def has_room(node: Any, shape: Any, count: int, devices: int) -> bool:
    """Return whether the node's host has room for `count` of a gang's devices."""
    cpu_milli = share_of(shape.cpu_milli, count, devices)
    host_mib = share_of(shape.host_mib, count, devices)
    return bool(node.free_cpu_milli >= cpu_milli and node.free_host_mib >= host_mib)


@kernel
def most_carried(node: Any, shape: Any, devices: int) -> int:
    """Return for how many of a gang's devices, at most, the node's host has room."""
    most = devices
    if shape.cpu_milli > 0:
        most = min(most, int(node.free_cpu_milli) * devices // shape.cpu_milli)
    if shape.host_mib > 0:
        most = min(most, int(node.free_host_mib) * devices // shape.host_mib)
    return int(most)


@kernel
def take_host(node: Any, shape: Any, count: int, devices: int, sign: int) -> None:
    """Take (sign 1) or give back (-1) what `count` of a gang's devices need of the host."""
    if asks_host(shape):
        node.free_cpu_milli -= sign * share_of(shape.cpu_milli, count, devices)
        node.free_host_mib -= sign * share_of(shape.host_mib, count, devices)


@kernel
def room_us(state: Any, job: Any, node_id: int, count: int, now: int) -> int:
    """Return when the host is expected to have room for `count` devices of the job.

    By the expected ends of the jobs on the node; FOREVER_US if even an empty node has too little.
    """
    shape, node = state.shapes[job.shape_id], state.nodes[node_id]
    cpu_milli = share_of(shape.cpu_milli, count, job.devices)
    host_mib = share_of(shape.host_mib, count, job.devices)
    when = now
    while when < FOREVER_US:
        free_cpu_milli, free_host_mib = node.free_cpu_milli, node.free_host_mib
        following = FOREVER_US
        row_id = node.first_row
        while row_id >= 0:
            row = state.rows[row_id]
            other = state.jobs[row.job]
            end = expected_end(other, state.runs[row.job], now)
            if end <= when:
                other_shape, count_held = state.shapes[other.shape_id], bit_count(row.mask)
                free_cpu_milli += share_of(other_shape.cpu_milli, count_held, other.devices)
                free_host_mib += share_of(other_shape.host_mib, count_held, other.devices)
            else:
                following = min(following, end)
            row_id = row.sibling
        if free_cpu_milli >= cpu_milli and free_host_mib >= host_mib:
            return when
        when = following
    return FOREVER_US
