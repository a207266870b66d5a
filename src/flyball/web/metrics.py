"""The metrics of the control plane as numbers, summed over labels."""

from __future__ import annotations

from fastapi import FastAPI

from flyball.api.bridge import Bridge


async def read_metrics(api: FastAPI) -> dict[str, float]:
    """Return every metric of `/metrics` by name, the sum of its rows."""
    bridge: Bridge = api.state.bridge
    sums: dict[str, float] = {}
    for name, _labels, value in await bridge.call(bridge.plane.ask.metrics):
        sums[name] = sums.get(name, 0.0) + value
    return sums
