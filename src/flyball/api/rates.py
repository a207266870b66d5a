"""Token buckets, which limit the rate of requests."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable


class Bucket:
    """Holds up to `burst` tokens and gains `rate` a second; callers pass the time."""

    __slots__ = ("burst", "filled_s", "held", "rate")

    def __init__(self, rate: float, burst: float, now_s: float) -> None:
        self.rate, self.burst = rate, burst
        self.held, self.filled_s = burst, now_s

    def take(self, now_s: float) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        passed_s = max(now_s - self.filled_s, 0.0)
        self.held = min(self.burst, self.held + passed_s * self.rate)
        self.filled_s = now_s
        if self.held >= 1:
            self.held -= 1
            return 0.0
        return (1 - self.held) / self.rate if self.rate > 0 else math.inf


class Buckets:
    """Holds a bucket per client. The least recently used is dropped, so memory stays bounded."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float], most: int = 4096
    ) -> None:
        self._rate, self._burst = rate, burst
        self._clock, self._most = clock, most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, client: str) -> float:
        """Take a token of a client and return 0, or return the seconds until there is one."""
        now_s = self._clock()
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = Bucket(self._rate, self._burst, now_s)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(client)
        return bucket.take(now_s)
