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
LEAST_OUTLOOK_S = 5.0
OUTLOOK_SHARE = 0.01
"""Largest part of a core that forecasts for the pages may take."""


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
class Outlook:
    """What is forecast.

    Attributes:
        time_s: when it was computed, in seconds since 1970; 0 = not yet.
        forecast: as `GET /forecast` returns it.
    """

    time_s: float
    forecast: dict[str, Any]

    @property
    def starts(self) -> list[list[float]]:
        """Return id, p50 and p90 in seconds from then, of each waiting job."""
        rows = self.forecast.get("starts", [])
        return [[row["id"], round(row["p50_s"]), round(row["p90_s"])] for row in rows]


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
        self._outlook = Outlook(0.0, {})
        self._outlook_until_s = 0.0
        self._forecasting = asyncio.Lock()

    async def picture(self) -> Picture:
        """Return a picture that is at most a second old."""
        async with self._lock:
            if self._picture is None or time.monotonic() - self._taken_s > FRESH_S:
                self._picture = await self._bridge.call(self._take)
                self._taken_s = time.monotonic()
            return self._picture

    async def outlook(self) -> Outlook:
        """Return the forecasts; they are computed again as often as that is cheap.

        While they are being computed, all others get the earlier ones, once there are any.
        """
        is_old = time.monotonic() >= self._outlook_until_s
        if is_old and (not self._outlook.time_s or not self._forecasting.locked()):
            async with self._forecasting:
                if time.monotonic() >= self._outlook_until_s:
                    await self._forecast()
        return self._outlook

    async def _forecast(self) -> None:
        began_s = time.monotonic()
        forecast = await self._bridge.call(self._bridge.plane.ask.forecast)
        self._outlook = Outlook(time.time(), forecast)
        took_s = time.monotonic() - began_s
        self._outlook_until_s = began_s + max(LEAST_OUTLOOK_S, took_s / OUTLOOK_SHARE)

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
