"""The state of the agent and its sensors, from `latest.json`, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIVE_S = 10.0
"""An agent that has not published for this long is not alive; it does so once a second."""
MODELLED = "modelled"


def states(status: Mapping[str, Any], age_s: float) -> dict[str, Any]:
    """Return the state of the agent and of its sensors.

    Args:
        status: what the agent last published, empty = there was never one.
        age_s: how long ago that was.
    """
    sensors: Mapping[str, Mapping[str, Any]] = status.get("sensors", {})
    return {
        "alive": age_s <= ALIVE_S,
        "age_s": age_s,
        "fast": bool(status.get("fast", False)),
        "lost": int(status.get("lost", 0)),
        "store_failures": int(status.get("store_failures", 0)),
        "sensors": [_row(name, state) for name, state in sensors.items()],
    }


def _row(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    about, absent = state.get("about", {}), state.get("absent", "")
    kind = MODELLED if str(about.get("kind", "")).startswith(MODELLED) else "measured"
    return {
        "name": name,
        "family": state.get("family", ""),
        "period_s": state.get("period_s"),
        "kind": "absent" if absent else kind,
        "absent": absent,
        "source": about.get("source", ""),
        "failures": state.get("failures", 0) + state.get("stuck", 0),
        "error": state.get("error", ""),
        "took_us": state.get("took_us"),
    }
