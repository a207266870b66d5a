"""What every page shows, computed at most once a second for all viewers together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from flyball.api.bridge import Bridge
from flyball.web.devices import DeviceTable, device_table

FRESH_S = 0.9
"""Age up to which a picture of the cluster is shared by viewers."""
LEAST_S, MOST_S = 5.0, 300.0
"""An answer that takes long is kept for at least and at most so long."""
STARTS_SHARE = 0.01
"""Largest part of a core that forecasts of starts may take, up to `MOST_S`."""
TODAY_SHARE = 0.002
"""The same of the sums of the day."""
OUTLOOK_SHARE = 0.002
"""The same of the other forecasts."""


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
        ask = bridge.plane.ask
        self._starts = _Slow(bridge, ask.expected_starts, STARTS_SHARE)
        self._outlook = _Slow(bridge, ask.outlook, OUTLOOK_SHARE)
        self._today = _Slow(bridge, ask.today, TODAY_SHARE)

    async def picture(self) -> Picture:
        """Return a picture that is at most a second old."""
        async with self._lock:
            if self._picture is None or time.monotonic() - self._taken_s > FRESH_S:
                self._picture = await self._bridge.call(self._take)
                self._taken_s = time.monotonic()
            return self._picture

    async def starts(self) -> tuple[list[list[float]], float]:
        """Return id, p50 and p90 in seconds of each waiting job, and from when on they count."""
        rows, time_s = await self._starts.latest()
        return [[row["id"], round(row["p50_s"]), round(row["p90_s"])] for row in rows], time_s

    async def outlook(self) -> dict[str, Any]:
        """Return the other forecasts, as `GET /forecast` does."""
        outlook: dict[str, Any] = (await self._outlook.latest())[0]
        return outlook

    async def today(self) -> dict[str, Any]:
        """Return the energy of the day and its budgets, as `GET /today` does."""
        today: dict[str, Any] = (await self._today.latest())[0]
        return today

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


class _Slow:
    """Keeps an answer that takes long, and computes it again as often as that is cheap.

    Args:
        ask: computes it.
        share: largest part of a core that it may take.
    """

    def __init__(self, bridge: Bridge, ask: Callable[[], Any], share: float) -> None:
        self._bridge, self._ask, self._share = bridge, ask, share
        self._answer: Any = None
        self._time_s = self._until_s = 0.0
        self._lock = asyncio.Lock()

    async def latest(self) -> tuple[Any, float]:
        """Return the answer, and when it was computed.

        While it is being computed, all others get the earlier one, once there is one.
        """
        is_old = time.monotonic() >= self._until_s
        if is_old and (not self._time_s or not self._lock.locked()):
            async with self._lock:
                if time.monotonic() >= self._until_s:
                    self._answer, cpu_s = await self._bridge.call(self._timed)
                    self._time_s = time.time()
                    kept_s = min(MOST_S, max(LEAST_S, cpu_s / self._share))
                    self._until_s = time.monotonic() + kept_s
        return self._answer, self._time_s

    def _timed(self) -> tuple[Any, float]:
        """Return the answer and the CPU time that it took; on a busy machine it waits as well."""
        began_s = time.thread_time()
        answer = self._ask()
        return answer, time.thread_time() - began_s
