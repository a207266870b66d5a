"""An answer that many clients ask for, computed once for all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from pydantic_core import to_json

from flyball.api.bridge import Bridge

LEAST_AGE_S = 0.5
MOST_SHARE = 0.02
"""Largest part of the time that may be spent on computing it."""


class Shared:
    """Keeps an answer until something has changed, and for a while in proportion to its cost.

    Args:
        bridge: calls the plane.
        compute: returns the answer, with the number of the newest event as `seq`.
    """

    def __init__(self, bridge: Bridge, compute: Callable[[], Mapping[str, Any]]) -> None:
        self._bridge, self._compute = bridge, compute
        self._lock = asyncio.Lock()
        self._seq, self._body = -1, b""
        self._until_s = 0.0

    async def fresh(self) -> tuple[str, bytes]:
        """Return the tag and the JSON of the present answer."""
        async with self._lock:
            if time.monotonic() >= self._until_s:
                newest = await self._bridge.call(self._bridge.plane.ask.wait_events, 0, 0.0)
                if newest != self._seq or not self._body:
                    await self._bridge.call(self._renew)
            return f'"{self._seq}"', self._body

    def _renew(self) -> None:
        began_s = time.monotonic()
        answer = self._compute()
        self._seq, self._body = int(answer["seq"]), to_json(answer)
        took_s = time.monotonic() - began_s
        self._until_s = began_s + max(LEAST_AGE_S, took_s / MOST_SHARE)
