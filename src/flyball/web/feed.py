"""What every page shows, computed at most once a second for all viewers together."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import Any

from flyball.api.bridge import Bridge
from flyball.web.devices import DeviceTable, device_table

FRESH_S = 0.9
"""Age up to which a picture of the cluster is shared by viewers."""
LEAST_STARTS_S = 5.0
STARTS_SHARE = 0.01
"""Largest part of a core that forecasts of starts for the pages may take."""


@dataclass(frozen=True)
class Picture:
    """The cluster at one instant.

    Attributes:
        time_s: when, in seconds since 1970.
        seq: number of the newest event.
        running, pending: number of jobs.
        devices: the devices as a table, and who holds them.
        signals: price and carbon intensity, where they are given.
        telemetry: the latest measured values.
    """

    time_s: float
    seq: int
    running: int
    pending: int
    devices: DeviceTable
    signals: dict[str, Any] = field(default_factory=dict)
    telemetry: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Starts:
    """Expected starts of the waiting jobs.

    Attributes:
        time_s: when they were forecast, in seconds since 1970; 0 = not yet.
        rows: id, p50 and p90 in seconds from then.
    """

    time_s: float
    rows: list[list[float]]


class Feed:
    """Takes pictures of the cluster for all viewers.

    Args:
        bridge: calls the plane.
    """

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._lock = asyncio.Lock()
        self._picture: Picture | None = None
        self._taken_s = 0.0
        self._starts = Starts(0.0, [])
        self._starts_until_s = 0.0
        self._forecasting = asyncio.Lock()

    async def picture(self) -> Picture:
        """Return a picture that is at most a second old."""
        async with self._lock:
            if self._picture is None or time.monotonic() - self._taken_s > FRESH_S:
                self._picture = await self._bridge.call(self._take)
                self._taken_s = time.monotonic()
            return self._picture

    async def starts(self) -> Starts:
        """Return the expected starts; they are forecast again as often as that is cheap.

        While they are being forecast, all others get the earlier ones.
        """
        if time.monotonic() >= self._starts_until_s and not self._forecasting.locked():
            async with self._forecasting:
                began_s = time.monotonic()
                self._starts = await self._bridge.call(self._forecast)
                took_s = time.monotonic() - began_s
                self._starts_until_s = began_s + max(LEAST_STARTS_S, took_s / STARTS_SHARE)
        return self._starts

    def _forecast(self) -> Starts:
        rows = self._bridge.plane.ask.forecast()["starts"]
        return Starts(
            time.time(), [[row["id"], round(row["p50_s"]), round(row["p90_s"])] for row in rows]
        )

    def _take(self) -> Picture:
        plane = self._bridge.plane
        ask = plane.ask
        seq, telemetry, before = ask.wait_events(0, 0.0), ask.telemetry(), self._picture
        if before is not None and before.seq == seq and not telemetry:
            return replace(before, time_s=time.time(), signals=ask.signals())
        jobs = ask.queue_jobs()
        running = [job for job in jobs if job.rows]
        earlier = before.devices if before else None
        return Picture(
            time_s=time.time(),
            seq=seq,
            running=len(running),
            pending=len(jobs) - len(running),
            devices=device_table(ask.nodes(), running, telemetry, earlier),
            signals=ask.signals(),
            telemetry=telemetry,
        )
