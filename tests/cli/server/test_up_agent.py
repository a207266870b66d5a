"""The agent of `flyball up`: its settings, its restarts, its log."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from tests.until import WAIT_S

from flyball.cli.server.up_agent import HEALTHY_S, AgentKeeper, agent_command, next_pause_s, trim
from flyball.core.errors import BadInput


def test_the_settings_are_the_agents(tmp_path: Path) -> None:
    command = agent_command(tmp_path, ["compute=50ms", "power=2s"], "60:200", 3.0, 64.0)
    assert command[1:] == [
        *("-m", "flyball.monitor.agent", "--state", str(tmp_path)),
        *("--rate=compute=50ms", "--rate=power=2s", "--host-watts=60:200"),
        *("--keep-days", "3", "--keep-mib", "64"),
    ]


@pytest.mark.parametrize(
    ("rates", "watts", "days", "mib", "said"),
    [
        (["compote=50ms"], "", 7, 512, "did you mean 'compute'"),
        (["compute=1ms"], "", 7, 512, "use 10ms to 60s"),
        (["compute"], "", 7, 512, "write e.g. compute=50ms"),
        ([], "200:60", 7, 512, "write e.g. 60:200"),
        ([], "", 0, 512, "use 0.01 to 3650 days"),
        ([], "", 7, float("nan"), "use 1 to 1048576 MiB"),
    ],
)
def test_what_the_agent_would_refuse_is_refused_at_once(
    tmp_path: Path, rates: list[str], watts: str, days: float, mib: float, said: str
) -> None:
    with pytest.raises(BadInput, match=said):
        agent_command(tmp_path, rates, watts, days, mib)


def test_an_agent_that_ends_early_is_started_less_and_less_often() -> None:
    pauses, pause_s = [], 0.0
    for _ in range(9):
        pause_s = next_pause_s(pause_s, 0.1)
        pauses.append(pause_s)
    assert pauses == [2, 4, 8, 16, 32, 64, 120, 120, 120]
    assert next_pause_s(120.0, HEALTHY_S) == 2.0


def test_the_log_stays_small(tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    trim(log)  # there is none yet
    with log.open("ab") as agent:
        agent.write(b"a" * 100)
        agent.flush()
        trim(log, 100)
        assert log.stat().st_size == 100
        trim(log, 99)
        assert (tmp_path / "agent.log.1").read_bytes() == b"a" * 100
        agent.write(b"more")  # who has it open goes on
    assert log.read_bytes() == b"more"


def test_it_is_started_again_and_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flyball.cli.server.up_agent.FIRST_PAUSE_S", 0.01)
    log = tmp_path / "agent.log"
    keeper = AgentKeeper([sys.executable, "-c", "print('here', flush=True)"], log)
    keeper.start()
    end_s = time.monotonic() + WAIT_S
    while not log.exists() or log.read_text().count("here") < 3:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    keeper.stop()
    assert not keeper._thread.is_alive()


def test_one_that_cannot_be_started_now_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flyball.cli.server.up_agent.FIRST_PAUSE_S", 0.01)
    log, program = tmp_path / "agent.log", tmp_path / "agent"
    keeper = AgentKeeper([str(program)], log)
    keeper.start()
    end_s = time.monotonic() + WAIT_S
    while not log.exists():  # it has tried: there is no such program yet
        assert time.monotonic() < end_s
        time.sleep(0.01)
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o700)
    while "here" not in log.read_text():
        assert time.monotonic() < end_s
        time.sleep(0.01)
    keeper.stop()
    assert not keeper._thread.is_alive()
