"""The agent process: it samples, reacts, ends with its parent and leaves complete segments."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.until import WAIT_S, until

from flyball.bench.monitor.cost import write_claim
from flyball.core.errors import BadInput
from flyball.monitor.agent import (
    LONGEST_STORE_S,
    STORE_S,
    StoreKeeper,
    lock,
    main,
)
from flyball.monitor.host_power import catalogue_power, host_power
from flyball.monitor.keep import Keep
from flyball.monitor.reader import Telemetry

AGENT = (sys.executable, "-m", "flyball.monitor.agent")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "engine").mkdir()
    return tmp_path


@pytest.fixture
def agent(state: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [*AGENT, "--state", str(state), "--rate", "compute=20ms", "--host-watts", "50:150"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_life(state: Path, agent: subprocess.Popen[bytes]) -> None:
    telemetry = Telemetry(state / "telemetry")
    # The shell leads the session, as a supervisor does; the job is what it starts.
    command = ["sh", "-c", "sleep 60 & wait"]
    with subprocess.Popen(command, start_new_session=True) as job:
        try:
            claim = write_claim(state / "engine", 7, 1, job.pid)
            until(lambda: telemetry.latest().get("jobs.7.processes") == 2, limit_s=WAIT_S)
            latest = telemetry.latest()
            assert latest["jobs.7.processes"] == 2
            assert latest["jobs.7.memory_bytes"] > 100_000
            assert 0.0 <= latest["compute.total_percent"] <= 100.0
            assert latest["memory.total_bytes"] > 1e8
            # While it runs, the spools are read.
            until(
                lambda: len(telemetry.series("compute.total_percent", 60)[0]) > 10, limit_s=WAIT_S
            )
            telemetry.ask_fast(1.0)
            until(lambda: telemetry.status()["fast"], limit_s=WAIT_S)
            until(lambda: not telemetry.status()["fast"], limit_s=WAIT_S)
            claim.unlink()
            until(lambda: telemetry.latest().get("jobs.ended_total") == 1, limit_s=WAIT_S)
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    # Told to stop, it leaves nothing but whole segments.
    agent.terminate()
    assert agent.wait(120) == 0
    assert not list((state / "telemetry").glob("*/*.live"))
    assert not list((state / "telemetry").glob("*/.*"))
    assert len(telemetry.series("compute.total_percent", 60)[0]) > 10
    assert telemetry.series("jobs.ended_total", 60)[1][-1] == 1
    assert not telemetry.damaged
    status = telemetry.status()
    assert all(not sensor.get("failures") for sensor in status["sensors"].values())
    assert status["store_failures"] == 0


def test_killed_and_started_again(state: Path, agent: subprocess.Popen[bytes]) -> None:
    telemetry = Telemetry(state / "telemetry")
    until(lambda: len(telemetry.series("compute.total_percent", 60)[0]) > 10, limit_s=WAIT_S)
    agent.kill()
    agent.wait(120)
    seen = len(telemetry.series("compute.total_percent", 60)[0])
    assert seen > 10  # what was flushed outlives it
    with subprocess.Popen([*AGENT, "--state", str(state)]) as again:
        until(lambda: telemetry.status().get("pid") == again.pid, limit_s=WAIT_S)
        again.terminate()
        assert again.wait(120) == 0
    assert len(telemetry.series("compute.total_percent", 60)[0]) > seen
    assert not list((state / "telemetry").glob("*/*.live"))


def test_it_ends_with_its_parent(state: Path) -> None:
    code = (
        "import subprocess, sys, time\n"
        f"p = subprocess.Popen([*{AGENT!r}, '--state', {str(state)!r}, '--only', 'memory'])\n"
        "print(p.pid, flush=True)\ntime.sleep(60)\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        telemetry = Telemetry(state / "telemetry")
        until(lambda: telemetry.latest(), limit_s=WAIT_S)
        parent.kill()
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in _state(pid), limit_s=WAIT_S)
    assert list((state / "telemetry" / "memory").glob("*.parquet"))


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def test_it_stays_small_and_quiet(state: Path, agent: subprocess.Popen[bytes]) -> None:
    until(lambda: Telemetry(state / "telemetry").latest(), limit_s=WAIT_S)
    maps = Path(f"/proc/{agent.pid}/maps").read_text()
    assert "arrow" not in maps  # loaded by the store's own process only
    assert "numba" not in maps
    rollup = Path(f"/proc/{agent.pid}/smaps_rollup").read_text()
    pss_kib = int(next(line for line in rollup.splitlines() if line.startswith("Pss:")).split()[1])
    assert pss_kib < 100_000
    agent.send_signal(signal.SIGINT)
    assert agent.wait(120) == 0
    assert agent.stderr is not None
    assert agent.stderr.read() == b""


def test_a_store_that_fails_is_counted_and_started_again(tmp_path: Path) -> None:
    keeper = StoreKeeper(tmp_path / "none")
    keeper.each_second(1000.0)  # 40 s past the minute
    process = keeper._process
    assert process is not None
    assert process.wait(120) == 2
    keeper.each_second(1001.0)
    assert (keeper.failures, keeper._process) == (1, None)  # not again at once
    keeper.each_second(1000.0 + STORE_S)
    keeper.finish(2000.0)
    assert keeper._process is not None
    assert keeper._process.returncode == 2


def test_a_store_that_hangs_is_ended(tmp_path: Path) -> None:
    keeper = StoreKeeper(tmp_path)
    lock_file = (tmp_path / "store.lock").open("w")
    with lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        keeper.each_second(1000.0)
        process = keeper._process
        assert process is not None
        keeper.each_second(1000.0 + LONGEST_STORE_S + 1)
        assert process.wait(120) == -signal.SIGKILL
    keeper.each_second(1000.0 + LONGEST_STORE_S + 2)
    assert keeper.failures == 1


def test_one_agent_for_a_folder(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock_file = lock(state / "telemetry")
    try:
        assert main(["--state", str(state)]) == 2
        assert "has an agent already" in capsys.readouterr().err
    finally:
        os.close(lock_file)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "compute=1ms"], "use 10ms to 60s"),
        (["--only", "memroy"], "did you mean 'memory'?"),
        (["--host-watts", "200:60"], "write e.g. 60:200"),
        (["--keep-days", "-1"], "use 0.01 to 3650 days"),
        (["--keep-mib", "nan"], "use 1 to 1048576 MiB"),
    ],
)
def test_bad_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["--state", str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "60", "a:b", "-1:5", "1:2:3", "nan:nan"])
def test_host_power(text: str) -> None:
    with pytest.raises(BadInput):
        host_power(text)
    assert host_power("60:200")[:2] == (60.0, 200.0)


def test_host_power_by_the_catalogue() -> None:
    idle_w, peak_w, source = catalogue_power(64)
    assert (idle_w, peak_w) == (288 + 64 * 2.8, 288 + 64 * 7.0)  # the server it was measured on
    assert catalogue_power(2)[0] == pytest.approx(idle_w / 32)
    assert "acme-cpu-server" in source


def test_the_store_is_told_how_much_to_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **_: commands.append(command))
    StoreKeeper(tmp_path, Keep(days=2.5, mib=64)).each_second(1000.0)
    assert commands[0][-4:] == ["--keep-days", "2.5", "--keep-mib", "64"]
