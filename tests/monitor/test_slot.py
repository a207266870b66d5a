"""A sensor that fails or hangs is isolated, counted and tried again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pytest
from tests.until import until

from flyball.core.clock import VirtualClock
from flyball.core.protocols import Sample
from flyball.monitor.loop import Loop
from flyball.monitor.rates import DEFAULT, FASTEST
from flyball.monitor.sensor import Null, Sensor, Site
from flyball.monitor.slot import MOST_LEFT, Slot


class Steady:
    """Works."""

    family: ClassVar[str] = "compute"
    least_s: ClassVar[float] = 0.0
    blocks: ClassVar[bool] = False
    about: Mapping[str, str] = {"source": "test"}

    @classmethod
    def open(cls, site: Site) -> Steady | Null:
        return cls()

    def collect(self, now: float) -> Sample:
        return Sample("steady", now, {"x": 1.0})


class Flaky(Steady):
    """Raises until mended."""

    family: ClassVar[str] = "memory"
    broken: ClassVar[bool] = True
    opened: ClassVar[int] = 0

    @classmethod
    def open(cls, site: Site) -> Steady | Null:
        Flaky.opened += 1
        return cls()

    def collect(self, now: float) -> Sample:
        if Flaky.broken:
            raise OSError("sensor fell off")
        return Sample("flaky", now, {"y": 1.0})


class Hanging(Steady):
    """Blocks until the gate is opened."""

    family: ClassVar[str] = "power"
    blocks: ClassVar[bool] = True
    gate: ClassVar[threading.Event]
    hangs: ClassVar[bool] = True

    def collect(self, now: float) -> Sample:
        if Hanging.hangs:
            Hanging.gate.wait(60.0)
        return Sample("hanging", now, {"z": 1.0})


class Missing(Steady):
    @classmethod
    def open(cls, site: Site) -> Steady | Null:
        return Null("missing", "no such thing here")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    Flaky.broken, Flaky.opened = True, 0
    Hanging.gate, Hanging.hangs = threading.Event(), True
    yield
    Hanging.gate.set()


class Taken:
    """Collects samples."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def add(self, family: str, sample: Sample) -> None:
        self.samples.append(sample)

    def times(self, source: str) -> list[float]:
        return [sample.time_s for sample in self.samples if sample.source == source]


def machine(*classes: type[Sensor]) -> tuple[Loop, list[Slot], Taken, VirtualClock]:
    clock, taken = VirtualClock(1000.0), Taken()
    slots = [Slot(cls.__name__.lower(), cls, Site()) for cls in classes]
    loop = Loop(slots, clock, taken, lambda _now: None)
    loop.set_rates(DEFAULT)
    return loop, slots, taken, clock


def run_to(loop: Loop, clock: VirtualClock, until_s: float) -> None:
    loop.run(lambda: clock.now() >= until_s)


def test_each_at_its_own_period() -> None:
    loop, _, taken, clock = machine(Steady)
    run_to(loop, clock, 1001.95)
    assert taken.times("steady") == pytest.approx([1000.0 + at / 10 for at in range(21)])


def test_a_broken_sensor_stops_nothing_and_is_tried_ever_less() -> None:
    loop, (_, flaky), taken, clock = machine(Steady, Flaky)
    run_to(loop, clock, 1060.0)
    assert len(taken.times("steady")) == pytest.approx(600, abs=2)
    assert 5 <= flaky.failures <= 12  # not 300
    assert flaky.error == "OSError: sensor fell off"
    assert Flaky.opened == flaky.failures  # opened anew each time
    assert flaky.state()["failures"] == flaky.failures
    Flaky.broken = False
    run_to(loop, clock, 1200.0)
    assert len(taken.times("flaky")) > 100


def test_a_null_object_is_asked_once() -> None:
    loop, (slot,), taken, clock = machine(Missing)
    run_to(loop, clock, 1003.0)
    assert slot.state() == {
        "family": "compute",
        "absent": "no such thing here",
        "failures": 0,
    }
    assert not taken.samples


def wait_for_thread(slot: Slot) -> None:
    """Wait until a blocking sensor's thread has a result."""
    thread = slot._thread
    assert thread is not None
    until(lambda: not thread._results.empty())


def test_a_blocking_sensor_answers_from_its_thread() -> None:
    Hanging.hangs = False
    loop, (slot,), taken, clock = machine(Hanging)
    loop.step()
    wait_for_thread(slot)
    run_to(loop, clock, 1000.9)
    assert taken.times("hanging") == [1000.0]


def test_a_hanging_sensor_is_replaced() -> None:
    loop, (_, slot), taken, clock = machine(Steady, Hanging)
    run_to(loop, clock, 1006.0)
    assert slot.stuck == 1
    assert "did not come back within 5" in slot.error
    assert len(taken.times("steady")) == 61  # nothing waited for it
    Hanging.hangs = False
    run_to(loop, clock, 1008.1)  # asked again after a pause, in a new thread
    wait_for_thread(slot)
    run_to(loop, clock, 1009.0)
    assert taken.times("hanging")[0] > 1006
    # The one left behind comes back at last: nobody listens.
    Hanging.gate.set()
    run_to(loop, clock, 1010.0)
    assert slot.stuck == 1


def test_a_sensor_that_always_hangs_is_switched_off() -> None:
    loop, (slot,), _, clock = machine(Hanging)
    run_to(loop, clock, 2000.0)
    assert slot.stuck == MOST_LEFT
    assert "restart the agent" in slot.state()["absent"]


def test_a_blocking_sensor_that_raises() -> None:
    class Raising(Hanging):
        def collect(self, now: float) -> Sample:
            raise ValueError("bad")

    loop, (slot,), taken, clock = machine(Raising)
    loop.step()
    wait_for_thread(slot)
    run_to(loop, clock, 1000.9)
    assert (slot.failures, slot.error) == (1, "ValueError: bad")
    assert not taken.samples


def test_missed_deadlines_are_counted_not_made_up_for() -> None:
    loop, (slot,), taken, clock = machine(Steady)
    loop.step()
    clock.sleep(1.05)
    loop.step()
    assert slot.missed == 9
    assert len(taken.samples) == 2
    run_to(loop, clock, 1001.35)
    assert len(taken.samples) == 6


def test_faster_at_once() -> None:
    loop, _, taken, clock = machine(Steady)
    run_to(loop, clock, 1001.0)
    loop.set_rates(FASTEST)
    before = len(taken.samples)
    run_to(loop, clock, 1002.0)
    assert len(taken.samples) - before == pytest.approx(100, abs=3)


def test_publishing_once_a_second() -> None:
    clock, seconds = VirtualClock(1000.3), list[float]()
    loop = Loop([], clock, Taken(), seconds.append)
    run_to(loop, clock, 1003.5)
    assert seconds == [1001.0, 1002.0, 1003.0, 1004.0]
