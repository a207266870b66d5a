"""Health and metrics of the control plane."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.control.live_cases import Rig

from flyball.control.ask.status import Pulse
from flyball.control.journal.store import JournalUnavailable


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_healthy(rig: Rig) -> None:
    assert rig.plane.ask.health() == {"ok": True, "checks": {"journal": "ok", "loop": "ok"}}
    rig.settle()
    assert rig.plane.ask.health()["ok"]


def test_a_stalled_loop_is_not_healthy(rig: Rig) -> None:
    rig.settle()
    rig.now += 60_000_000
    health = rig.plane.ask.health()
    assert not health["ok"]
    assert health["checks"] == {"journal": "ok", "loop": "the last cycle ended 60 s ago"}


def test_a_journal_that_cannot_write_is_not_healthy(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise JournalUnavailable("the disk is full", "free some space")

    monkeypatch.setattr(rig.plane.journal, "append", broken)
    health = rig.plane.ask.health()
    assert not health["ok"]
    assert health["checks"]["journal"] == "the disk is full; free some space"


def test_metrics(rig: Rig) -> None:
    rig.submit(cpus=3)
    rig.submit(cpus=3)
    rig.settle()
    values = {(name, *labels.values()): value for name, labels, value in rig.plane.ask.metrics()}
    assert values["flyball_jobs", "RUNNING"] == values["flyball_jobs", "PENDING"] == 1
    assert values["flyball_jobs", "FAILED"] == 0
    assert values["flyball_devices",] == 4
    assert values["flyball_devices_used",] == 3
    assert values["flyball_events_total",] == rig.plane.live_state.seq == 6
    assert values["flyball_decisions_total",] == 1
    assert values["flyball_cycles_total",] == rig.plane.pulse.cycles >= 2
    assert values["flyball_cycle_failures_total",] == 0
    assert values["flyball_commits_total",] >= 3


def test_the_pulse() -> None:
    pulse = Pulse()
    pulse.beat(5, 0.25)
    pulse.beat(9, 0.5)
    pulse.missed(ValueError("no"))
    assert (pulse.cycles, pulse.busy_s, pulse.worst_s, pulse.last_us) == (2, 0.75, 0.5, 9)
    assert (pulse.failures, pulse.last_error) == (1, "ValueError: no")
