"""The agent's one loop: sleep until something is due, read what is due, publish once a second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from flyball.core.protocols import Clock, Sample
from flyball.monitor.rates import Rates
from flyball.monitor.slot import Slot

PUBLISH_S = 1.0
SLACK_S = 5e-4
"""What is due within this time is done now: one waking instead of two."""


class Takes(Protocol):
    """Where samples go."""

    def add(self, family: str, sample: Sample) -> None: ...


class Loop:
    """Reads each slot at its own period.

    Args:
        each_second: told the time once a second; publishes and keeps house.
    """

    def __init__(
        self,
        slots: Sequence[Slot],
        clock: Clock,
        takes: Takes,
        each_second: Callable[[float], None],
    ) -> None:
        self._slots = list(slots)
        self._clock, self._takes, self._each_second = clock, takes, each_second
        self._second_s = clock.now() // PUBLISH_S * PUBLISH_S + PUBLISH_S

    def set_rates(self, rates: Rates) -> None:
        """Change the periods; a faster one counts at once."""
        now = self._clock.now()
        for slot in self._slots:
            period_s = max(rates[slot.cls.family], slot.cls.least_s)
            if period_s < slot.period_s and not slot.error:
                slot.due_s = min(slot.due_s, now + period_s)
            slot.period_s = period_s

    def run(self, stop: Callable[[], bool]) -> None:
        """Until told to stop; looks whether it was at each waking, once a second at least."""
        while not stop():
            self.step()

    def step(self) -> None:
        """Sleep until the next deadline, then do all that is due."""
        # 1. Sleep. Deadlines are multiples of the periods, so most of them fall together.
        deadline = min((each.due_s for each in self._slots), default=self._second_s)
        wait_s = min(deadline, self._second_s) - self._clock.now()
        if wait_s > 0:
            self._clock.sleep(wait_s)
        now = self._clock.now()
        # 2. Take what threads have brought.
        for slot in self._slots:
            self._take(slot, slot.harvest(now))
        # 3. Read what is due; all of it carries the same time.
        for slot in self._slots:
            if slot.due_s <= now + SLACK_S:
                self._take(slot, slot.run(now))
        # 4. Once a second publish, and forget sensors that are not there.
        if now >= self._second_s:
            self._second_s = now // PUBLISH_S * PUBLISH_S + PUBLISH_S
            self._each_second(now)
            self._slots = [each for each in self._slots if not each.absent]

    def _take(self, slot: Slot, sample: Sample | None) -> None:
        if sample is not None:
            self._takes.add(slot.cls.family, sample)
