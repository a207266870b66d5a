"""The energy account of a node: what it drew since it was last looked at.

Sleep needs no event. A node that is still idle at the instant set when it became idle has been
asleep since then, and that is found out when it is next touched.
"""

from __future__ import annotations

from typing import Any

from flyball.physics.compile import kernel


@kernel
def asleep(node: Any, now: int) -> bool:
    """Whether an idle node has gone to sleep by now."""
    return bool(node.idle_since_us >= 0 and now >= node.sleeps_us)


@kernel
def rest(node: Any, sleep_us: int, now: int) -> None:
    """The node is idle from now on, and falls asleep if it stays so."""
    node.idle_since_us = now
    node.sleeps_us = now + sleep_us


@kernel
def energy_at(node: Any, sleep_w: float, now: int) -> float:
    """What the node has drawn by `now`."""
    if node.idle_since_us < 0:
        return float(node.energy_j + node.power_w * (now - node.since_us) / 1e6)
    awake_us = max(0, min(now, node.sleeps_us) - node.since_us)
    asleep_us = max(0, now - max(node.since_us, node.sleeps_us))
    return float(node.energy_j + node.power_w * awake_us / 1e6 + sleep_w * asleep_us / 1e6)


@kernel
def busy_at(node: Any, now: int) -> float:
    """Device time in use by `now`."""
    return float(node.busy_us + node.used_milli * (now - node.since_us) / 1000)


@kernel
def touch(node: Any, sleep_w: float, now: int) -> None:
    """Bring the node's energy, busy and sleep accounts up to `now`."""
    node.energy_j = energy_at(node, sleep_w, now)
    node.busy_us = busy_at(node, now)
    if node.idle_since_us >= 0:
        node.asleep_us += max(0, now - max(node.since_us, node.sleeps_us))
    node.since_us = now
