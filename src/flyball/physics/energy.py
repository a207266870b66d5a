"""The energy account of a node: what it drew since its last update.

Money and carbon are in its bill (`physics/signals.py`).

Sleep needs no event. When a node becomes idle, the instant at which it falls asleep is stored; if
it is still idle at its next update, it has been asleep since that instant.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import hot, kernel
from flyball.physics.signals import bill_node


@kernel
def asleep(node: Any, now: int) -> bool:
    """Return whether an idle node has gone to sleep by now."""
    return bool(node.idle_since_us >= 0 and now >= node.sleeps_us)


@kernel
def rest(node: Any, sleep_us: int, now: int) -> None:
    """Mark the node as idle from now on; it falls asleep if it stays idle for `sleep_us`."""
    node.idle_since_us = now
    node.sleeps_us = now + sleep_us


@kernel
def energy_at(node: Any, sleep_w: float, now: int) -> float:
    """Return the energy that the node has drawn by `now`."""
    if node.idle_since_us < 0:
        return float(node.energy_j + node.power_w * (now - node.since_us) / 1e6)
    awake_us = max(0, min(now, node.sleeps_us) - node.since_us)
    asleep_us = max(0, now - max(node.since_us, node.sleeps_us))
    return float(node.energy_j + node.power_w * awake_us / 1e6 + sleep_w * asleep_us / 1e6)


@kernel
def busy_at(node: Any, now: int) -> float:
    """Return the device time in use by `now`."""
    return float(node.busy_us + node.used_milli * (now - node.since_us) / 1000)


@hot
def touch(state: Any, node_id: int, now: int) -> None:
    """Update the node's bill and its energy, busy and sleep accounts to `now`."""
    node = state.nodes[node_id]
    sleep_w = state.pools[node.pool].sleep_w
    if len(state.steps) > 0:
        bill_node(state.clock[0], state.steps, node, sleep_w, now)
    update(node, sleep_w, now)


@kernel
def update(node: Any, sleep_w: float, now: int) -> None:
    """Update the node's energy, busy and sleep accounts to `now`."""
    node.energy_j = energy_at(node, sleep_w, now)
    node.busy_us = busy_at(node, now)
    if node.idle_since_us >= 0:
        node.asleep_us += max(0, now - max(node.since_us, node.sleeps_us))
    node.since_us = now
