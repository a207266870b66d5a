"""The threads that drive a control plane, on the real clock."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.control.live_cases import ONE_NODE, course, spec_of
from tests.until import WAIT_S, until

from flyball.control import driver as driving
from flyball.control.driver import Driver
from flyball.control.journal.store import JournalUnavailable
from flyball.control.plane import Plane
from flyball.core.clock import LiveClock
from flyball.core.jobs import JobState
from flyball.schedule.policies.registry import get_policy
from flyball.twin.engine import VirtualEngine


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    clock = LiveClock()
    engine = VirtualEngine(ONE_NODE, clock.now_us, course)
    knobs = get_policy("fifo").knobs
    plane = Plane(tmp_path, engine, "fifo", knobs, lambda _last: clock.now_us)
    plane.open()
    yield plane
    plane.close()


@pytest.fixture
def driver(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setattr(driving, "PAUSE_S", 0.01)
    running = Driver(plane, plane.engine)
    running.start()
    yield running
    running.stop()


@pytest.mark.usefixtures("driver")
def test_jobs_are_run_as_they_come(plane: Plane) -> None:
    jobs = plane.submit([spec_of(cpus=2, estimate_s=0.02) for _ in range(6)])
    until(lambda: all(plane.ask.job(job).state == JobState.COMPLETED for job in jobs))
    assert plane.ask.queue() == []


@pytest.mark.usefixtures("driver")
def test_waiting_that_fails_does_not_end_the_cycles(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between cycles the engine cleans its folder, on a disk that may refuse for a while."""
    real, errors = plane.engine.wait, [OSError("no"), OSError("still no")]

    def wait(timeout_s: float) -> bool:
        if errors:
            raise errors.pop(0)
        return bool(real(timeout_s))

    monkeypatch.setattr(plane.engine, "wait", wait)
    (job,) = plane.submit([spec_of(estimate_s=0.01)])
    until(lambda: plane.ask.job(job).state == JobState.COMPLETED and plane.pulse.failures == 2)
    assert errors == []


@pytest.mark.usefixtures("driver")
def test_a_failed_cycle_is_counted_and_retried(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    real, errors = plane.step, [JournalUnavailable("full", "free"), OSError("odd")]

    def step() -> bool:
        if errors:
            raise errors.pop(0)
        return real()

    monkeypatch.setattr(plane, "step", step)
    (job,) = plane.submit([spec_of(estimate_s=0.01)])
    until(lambda: plane.ask.job(job).state == JobState.COMPLETED)
    assert plane.pulse.failures == 2
    assert plane.pulse.last_error == "OSError: odd"
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["a cycle failed: full; free", "a cycle failed"]


def test_stopping_ends_the_threads_and_leaves_jobs_alone(plane: Plane) -> None:
    driver = Driver(plane, plane.engine)
    driver.start()
    (job,) = plane.submit([spec_of(estimate_s=60.0)])
    until(lambda: plane.ask.job(job).state == JobState.RUNNING)
    driver.stop()
    assert "loop" not in {thread.name for thread in threading.enumerate()}
    cycles = plane.pulse.cycles
    assert plane.ask.job(job).state == JobState.RUNNING
    assert plane.pulse.cycles == cycles


def test_the_agent_receives_the_state_of_the_queue(plane: Plane, tmp_path: Path) -> None:
    (tmp_path / "telemetry").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(tmp_path / "telemetry" / "report.sock"))
        agent.settimeout(WAIT_S)
        plane.submit(
            [spec_of(cpus=4, estimate_s=60.0, priority=priority) for priority in (3.0, 2.0)]
        )
        plane.step()
        driver = Driver(plane, plane.engine)
        driver.start()
        values = json.loads(agent.recv(1000))
        driver.stop()
    assert values == {"queue_length": 1, "running": 1, "completed_total": 0, "priority_max": 2.0}
