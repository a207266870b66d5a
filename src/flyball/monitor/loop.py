"""The agent's loop: sleeps until a sensor is due, reads it, and publishes once a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from flyball.core.protocols import Clock, Sample
from flyball.monitor.rates import Rates
from flyball.monitor.slot import Slot

PUBLISH_S = 1.0
SLACK_S = 5e-4
"""Sensors due within this time are read now: one wake-up instead of two."""


class SampleSink(Protocol):
    """Accepts samples."""

    def add(self, family: str, sample: Sample) -> None: ...


class Loop:
    """Reads each slot at its own period.

    Args:
        each_second: called with the time once a second; publishes and maintains the store.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        clock: Clock,
        sink: SampleSink,
        each_second: Callable[[float], None],
    ) -> None:
        self._slots = list(slots)
        self._clock, self._sink, self._each_second = clock, sink, each_second
        self._second_s = clock.now() // PUBLISH_S * PUBLISH_S + PUBLISH_S

    def set_rates(self, rates: Rates) -> None:
        """Change the periods; a shorter one takes effect at once."""
        now = self._clock.now()
        for slot in self._slots:
            period_s = max(rates[slot.cls.family], slot.cls.least_s)
            if period_s < slot.period_s and not slot.error:
                slot.due_s = min(slot.due_s, now + period_s)
            slot.period_s = period_s

    def run(self, stop: Callable[[], bool]) -> None:
        """Run until `stop` returns True; it is called at each wake-up, at least once a second."""
        while not stop():
            self.step()

    def step(self) -> None:
        """Sleep until the next deadline, then do everything that is due."""
        # 1. Sleep. Deadlines are multiples of the periods, so most of them coincide.
        deadline = min((slot.due_s for slot in self._slots), default=self._second_s)
        wait_s = min(deadline, self._second_s) - self._clock.now()
        if wait_s > 0:
            self._clock.sleep(wait_s)
        now = self._clock.now()
        # 2. Take the results of threads.
        for slot in self._slots:
            self._take(slot, slot.harvest(now))
        # 3. Read the sensors that are due; all samples carry the same time.
        for slot in self._slots:
            if slot.due_s <= now + SLACK_S:
                self._take(slot, slot.run(now))
        # 4. Once a second, publish, and drop sensors that are absent.
        if now >= self._second_s:
            self._second_s = now // PUBLISH_S * PUBLISH_S + PUBLISH_S
            self._each_second(now)
            self._slots = [slot for slot in self._slots if not slot.absent]

    def _take(self, slot: Slot, sample: Sample | None) -> None:
        if sample is not None:
            self._sink.add(slot.cls.family, sample)
