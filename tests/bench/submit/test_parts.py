"""`flyball bench submit`: the real processes, with small numbers."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer

from flyball.bench.submit import cycles, idle, jobs, parts, rates, recovery, speed
from flyball.bench.submit.rows import SubmitSetting, at_least, at_most
from flyball.bench.submit.server import Up, running, state_folder, wait_until
from flyball.bench.submit.speed import Worker
from flyball.cli.bench import submit
from flyball.control.journal.history import History
from flyball.control.plane import JOURNAL
from flyball.core.errors import BadInput, Unavailable
from flyball.core.jobs import JobState

NOTES: list[str] = []


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One control plane for all tests that need a real one."""
    base = tmp_path_factory.mktemp("state")
    with state_folder(base) as state, running(state) as up:
        yield up


def of_folder(state: Path) -> list[int]:
    """Processes that name the folder in their arguments or their environment."""
    pids = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("FLYBALL_STATE", "")]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(state) in word for word in words):
            pids.append(process.pid)
    return pids


# Rows -------------------------------------------------------------------------------


def test_rows_hold_or_not() -> None:
    assert at_least("rate", 500.0, "jobs/s", 500.0)["holds"] is True
    assert at_least("rate", 499.0, "jobs/s", 500.0)["holds"] is False
    assert at_most("time", 5.1, "s", 5.0)["holds"] is False
    row = at_most("time", 5.0, "s", None, about="to compare with")
    assert (row["holds"], row["about"]) == (None, "to compare with")
    assert row["load_1m"] >= 0


# Parts ------------------------------------------------------------------------------


def test_submits_are_accepted_over_many_connections(
    up: Up, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "JOB", {"argv": ["true"], "cwd": "/"})
    with up.client() as client:
        before = sum(1 for _ in client.jobs())
        took_s = rates.submit_one_by_one(up, 2)
        assert len(took_s) == 2 * rates.CONNECTIONS
        assert all(seconds > 0 for seconds in took_s)
        assert sum(1 for _ in client.jobs()) == before + len(took_s)
        wait_until(lambda: not client.queue(1), 60.0, "the jobs to end")


def test_short_jobs_all_end(up: Up) -> None:
    assert jobs.run_all(up, 20) > 0
    with History(up.state / JOURNAL) as history:
        assert set(history.counts()) == {JobState.COMPLETED}


def _stops(process: psutil.Process) -> bool:
    """Whether it is stopped, soon: a signal takes effect when its process is next looked at."""
    for _ in range(100):
        if process.status() == psutil.STATUS_STOPPED:
            return True
        time.sleep(0.05)
    return False


def test_pausing_stops_flyball_and_named_processes(up: Up) -> None:
    with subprocess.Popen(["sleep", "3600"]) as other:
        with up.paused(other.pid):
            assert _stops(psutil.Process(up.process.pid))
            assert _stops(psutil.Process(other.pid))
        assert psutil.Process(other.pid).status() != psutil.STATUS_STOPPED
        other.kill()


def test_a_job_and_its_twins_take_turns(up: Up) -> None:
    workers = {name: Worker(up.state / f"words.{name}") for name in speed.NAMES}
    job = workers[speed.JOB]
    with speed.running_as_job(up, job):
        cores = os.sched_getaffinity(job.pid)
        twin = workers[speed.SAME]
        with speed.running_bare(twin, cores):
            assert _stops(psutil.Process(job.pid))
            assert _stops(psutil.Process(twin.pid))
            assert os.sched_getaffinity(twin.pid) == cores
            assert len(cores) == 1
            assert speed.bare_turn(up, job, twin) > 0
            assert _stops(psutil.Process(twin.pid))
            assert twin.turns_s >= speed.TURN_S
            assert job.turns_s == 0 <= twin.waited_s
    assert not psutil.pid_exists(twin.pid)
    with up.client() as client:
        assert client.queue(1) == []
    fresh = {name: Worker(up.state / f"more.{name}") for name in speed.NAMES}
    speeds = speed.measure_set(up, fresh, 3)
    assert all(value > 0 for value in speeds.values())
    assert len(speeds) == 3


def test_rows_of_speed() -> None:
    row = speed.speed_row(speed.ANY, [100.0, 100.0, 100.0], "three")
    assert (row["value"], row["holds"], row["about"]) == (pytest.approx(100.0), True, "three")
    assert row["low"] == row["high"] == row["value"]
    row = speed.speed_row(speed.SAME, [98.0, 100.0, 98.0, 100.0], "four")
    assert row["value"] == pytest.approx(98.995, abs=0.001)
    assert row["holds"] is False
    assert row["low"] < 98.0 < 100.0 < row["high"]  # 1.8 either way: few sets say little


def test_idle_finds_every_process(up: Up) -> None:
    job = up.fill()
    parts = idle.control_processes(up)
    assert len({process.pid for process in parts.values()}) == 5
    assert all(idle.cpu_s(process) >= 0 for process in parts.values())
    memory = {name: process.memory_full_info().pss for name, process in parts.items()}
    assert 0 < memory["supervisor"] < memory["control plane"]
    with up.client() as client:
        client.cancel(job)


def test_cycles_keep_the_queue_full(tmp_path: Path) -> None:
    case = cycles.CycleCase(nodes=4, pending=30, cycles=5, bar_ms=1e9)
    world = cycles.World(tmp_path, case, "easy")
    try:
        rows = cycles.cycle_rows(world, SubmitSetting(tmp_path, True, NOTES.append))
        assert len(world.plane.live_state.jobs) - len(world.plane.columns.running) >= 25
    finally:
        world.plane.close()
    assert [row["bar"] for row in rows] == [None, 1e9]
    assert 0 < rows[0]["value"] <= rows[1]["value"]
    assert "32 devices" in rows[0]["about"]


def test_a_history_is_what_a_control_plane_recovers_from(tmp_path: Path) -> None:
    recovery.write_history(tmp_path / JOURNAL, 1_500)
    with History(tmp_path / JOURNAL) as history:
        assert history.counts() == {JobState.COMPLETED: 1_500, JobState.PENDING: 10}
        assert history.last().next_job == 1_511
    setting = SubmitSetting(tmp_path, True, NOTES.append)
    for took_s, cpu_s in (
        recovery.time_opening(setting, tmp_path),
        recovery.time_up(setting, tmp_path),
    ):
        assert took_s > 0
        assert cpu_s > 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


# Leaving nothing behind -------------------------------------------------------------


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """Not even when it is interrupted while a job runs."""
    with (
        pytest.raises(KeyboardInterrupt),
        state_folder(tmp_path) as state,
        running(state, "--no-agent") as up,
    ):
        up.fill()
        assert len(of_folder(state)) >= 3
        raise KeyboardInterrupt
    assert of_folder(state) == []
    assert list(tmp_path.iterdir()) == []


def test_an_up_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(Unavailable, match="unknown policy 'nonsense'"),
        state_folder(tmp_path) as state,
        running(state, "--policy", "nonsense"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


# The command ------------------------------------------------------------------------


def command(*arguments: str) -> None:
    """The command as a user calls it."""
    app = typer.Typer()
    app.command(epilog=submit.EXAMPLES)(submit.submit)
    app([*arguments], standalone_mode=False)


def test_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def part(setting: SubmitSetting) -> list[dict[str, Any]]:
        """A figure."""
        assert setting.size(10, 1) == 1
        return [at_least("rate", 5.0, "jobs/s", 4.0, about="five"), at_most("time", 1, "s", None)]

    monkeypatch.setattr(parts, "PARTS", {"rates": part})
    command("--quick", "--folder", str(tmp_path), "--json")
    figures = json.loads(capsys.readouterr().out)
    assert [row["holds"] for row in figures["rows"]] == [True, None]
    assert figures["machine"]["cores"] >= 1
    assert figures["machine"]["sync_ms"] > 0
    assert figures["machine"]["file_system"] != "unknown"
    command("--quick", "--folder", str(tmp_path), "--only", "rates")
    shown = capsys.readouterr()
    assert "yes" in shown.out
    assert "rates: A figure." in shown.err
    assert "rate: five" in shown.err


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="unknown part 'cycle'; did you mean 'cycles'"):
        command("--only", "cycle")
    with pytest.raises(BadInput, match="is not a folder that can be written to"):
        command("--folder", str(tmp_path / "none"))
