"""The live clock: whatever is done to the time of day, it goes forwards."""

from __future__ import annotations

import time

import pytest

from flyball.core.clock import LiveClock

DAY_NS = 86_400 * 10**9


@pytest.fixture
def monotonic_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The machine's monotonic clock, in the test's hands."""
    hands = [5 * 10**9]
    monkeypatch.setattr(time, "monotonic_ns", lambda: hands[0])
    return hands


@pytest.fixture
def day_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time of day, likewise."""
    hands = [20_000 * DAY_NS]
    monkeypatch.setattr(time, "time_ns", lambda: hands[0])
    return hands


def test_it_begins_with_the_time_of_day(day_ns: list[int], monotonic_ns: list[int]) -> None:
    clock = LiveClock()
    assert clock.now_us() == day_ns[0] // 1000
    monotonic_ns[0] += 1_500_000
    assert clock.now_us() == day_ns[0] // 1000 + 1500
    assert clock.now() == clock.now_us() / 1e6


@pytest.mark.parametrize("jump_ns", [-DAY_NS, -1000, 1000, DAY_NS])
def test_jumps_of_the_time_of_day_move_nothing(
    day_ns: list[int], monotonic_ns: list[int], jump_ns: int
) -> None:
    clock = LiveClock()
    before = clock.now_us()
    day_ns[0] += jump_ns
    assert clock.now_us() == before
    monotonic_ns[0] += 7_000
    assert clock.now_us() == before + 7


def test_a_time_of_day_behind_the_record(day_ns: list[int], monotonic_ns: list[int]) -> None:
    """The machine was set back a day while nobody ran: what is recorded next comes later."""
    last_us = LiveClock().now_us()
    day_ns[0] -= DAY_NS
    clock = LiveClock(last_us)
    assert clock.now_us() == last_us + 1
    monotonic_ns[0] += 3_000
    assert clock.now_us() == last_us + 4
    day_ns[0] += 2 * DAY_NS
    assert LiveClock(clock.now_us()).now_us() == day_ns[0] // 1000


def test_the_real_one_goes_forwards_and_sleeps() -> None:
    clock = LiveClock()
    times = [clock.now_us() for _ in range(1000)]
    assert times == sorted(times)
    before = clock.now_us()
    clock.sleep(0.002)
    clock.sleep(-1.0)
    assert clock.now_us() - before >= 2000


def test_not_before_moves_forward_only() -> None:
    clock = LiveClock()
    before_us = clock.now_us()
    clock.not_before(before_us - 10**9)
    assert clock.now_us() - before_us < 10**9
    clock.not_before(before_us + 10**12)
    assert clock.now_us() > before_us + 10**12
