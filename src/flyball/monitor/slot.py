"""Runs one sensor for the agent: its failures are counted and never reach the agent.

A sensor that raises is reopened after a pause that doubles. One that may hang in a driver runs in
a thread; if the thread does not return, it is abandoned and another takes over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

from flyball.core.protocols import Sample
from flyball.monitor.sensor import Null, Sensor, Site

STUCK_PERIODS = 5
LEAST_STUCK_S = 2.0
"""A blocking sensor counts as stuck after this many periods, and not before this time."""
MOST_LEFT = 8
"""Maximum number of abandoned threads; then the sensor stays off."""
LONGEST_PAUSE_S = 60.0


class Probe:
    """Opens a sensor at its first read and after each failure."""

    def __init__(self, cls: type[Sensor], site: Site, outside: bool = False) -> None:
        self._cls, self._site, self._outside = cls, site, outside
        self.sensor: Sensor | Null | None = None

    def collect(self, now: float) -> Sample:
        if self.sensor is None:
            self.sensor = self._cls.open(self._site)
        try:
            sample = self.sensor.collect(now)
            return _checked(sample) if self._outside else sample
        except Exception:
            self.sensor = None
            raise


def _checked(sample: Sample) -> Sample:
    """Convert the sample of another package's sensor to the types that are written to files.

    Raises:
        AttributeError, TypeError, ValueError: it is not a sample.
    """
    values = {str(name): float(value) for name, value in sample.values.items()}
    return Sample(str(sample.source), float(sample.time_s), values)


class ReaderThread:
    """Reads one probe in a thread on request; `result` returns each result once."""

    def __init__(self, probe: Probe, name: str, timer: Callable[[], float]) -> None:
        self.probe = probe
        self._timer = timer
        self.asked_s: float | None = None
        self.took_s = 0.0
        self._requests: SimpleQueue[float | None] = SimpleQueue()
        self._results: SimpleQueue[Sample | Exception] = SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def ask(self, now: float) -> None:
        self.asked_s = now
        self._requests.put(now)

    def result(self) -> Sample | Exception | None:
        """Return the sample or the error, None if there is none yet."""
        if self.asked_s is None or self._results.empty():
            return None
        self.asked_s = None
        return self._results.get()

    def end(self) -> None:
        """End the thread once it has served its requests."""
        self._requests.put(None)

    def _serve(self) -> None:
        while (now := self._requests.get()) is not None:
            began = self._timer()
            result: Sample | Exception
            try:
                result = self.probe.collect(now)
            except Exception as error:
                result = error
            self.took_s = self._timer() - began
            self._results.put(result)


class Slot:
    """Schedules one sensor and counts its failures.

    Args:
        outside: it is another package's, so its samples are checked.

    Attributes:
        absent: why there is no such sensor here, "" if there is one.
        failures, stuck, missed: how often it raised, hung, or missed its time.
        error: message of the last failure.
        took_s: duration of the last read.
    """

    def __init__(
        self,
        name: str,
        cls: type[Sensor],
        site: Site,
        timer: Callable[[], float] = time.perf_counter,
        outside: bool = False,
    ) -> None:
        self.name, self.cls = name, cls
        self.absent = self.error = ""
        self.failures = self.stuck = self.missed = 0
        self.took_s = 0.0
        self.period_s = 1.0
        self.due_s = 0.0
        self._site, self._timer, self._outside = site, timer, outside
        self._streak = 0
        self._probe = Probe(cls, site, outside)
        self._thread: ReaderThread | None = None

    @property
    def sensor(self) -> Sensor | Null | None:
        return self._probe.sensor

    def run(self, now: float) -> Sample | None:
        """Read the sensor, or start its thread to do so; set when it is due next."""
        if now - self.due_s > self.period_s and self.due_s > 0:
            self.missed += int((now - self.due_s) / self.period_s)
        self.due_s = (now + 1e-6) // self.period_s * self.period_s + self.period_s
        if self.cls.blocks:
            self._ask(now)
            return None
        began = self._timer()
        try:
            sample = self._probe.collect(now)
        except Exception as error:
            self._record_failure(now, error)
            return None
        self.took_s = self._timer() - began
        return self._good(sample)

    def harvest(self, now: float) -> Sample | None:
        """Return the sample that a blocking sensor's thread has finished, if any."""
        thread = self._thread
        if thread is None or thread.asked_s is None:
            return None
        asked_s = thread.asked_s
        result = thread.result()
        if isinstance(result, Exception):
            self._record_failure(now, result)
            return None
        if result is not None:
            self.took_s = thread.took_s
            return self._good(result)
        if now - asked_s > max(LEAST_STUCK_S, STUCK_PERIODS * self.period_s):
            self._give_up(now, now - asked_s)
        return None

    def state(self) -> dict[str, Any]:
        """Return the sensor's state for `latest.json`."""
        about: Mapping[str, str] = getattr(self.sensor, "about", {})
        if self.absent:
            return {"family": self.cls.family, "absent": self.absent, "failures": self.failures}
        return {
            "family": self.cls.family,
            "period_s": self.period_s,
            "about": dict(about),
            "failures": self.failures,
            "stuck": self.stuck,
            "missed": self.missed,
            "error": self.error,
            "took_us": round(self.took_s * 1e6),
        }

    def end(self) -> None:
        if self._thread is not None:
            self._thread.end()

    def _ask(self, now: float) -> None:
        if self._thread is None:
            self._thread = ReaderThread(self._probe, f"flyball-{self.name}", self._timer)
        if self._thread.asked_s is None:
            self._thread.ask(now)

    def _good(self, sample: Sample) -> Sample | None:
        self._streak = 0
        if isinstance(self.sensor, Null):
            self.absent = self.sensor.reason
            self.end()
            return None
        return sample

    def _record_failure(self, now: float, error: Exception) -> None:
        self.failures += 1
        self._pause(now, f"{type(error).__name__}: {error}")

    def _give_up(self, now: float, waited_s: float) -> None:
        self.stuck += 1
        self._pause(now, f"did not come back within {waited_s:.1f} s")
        self.end()  # in case it ever returns
        self._thread = None
        self._probe = Probe(self.cls, self._site, self._outside)
        if self.stuck >= MOST_LEFT:
            self.absent = f"hung {self.stuck} times and was switched off; restart the agent"

    def _pause(self, now: float, error: str) -> None:
        self.error = error
        self._streak += 1
        pause_s = min(LONGEST_PAUSE_S, self.period_s * 2.0 ** min(self._streak, 16))
        self.due_s = max(self.due_s, now + pause_s)
