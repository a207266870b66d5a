"""`flyball up` as a real process: starts, refuses, stops, and hands over to the next one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.named_pipes import send_line
from tests.until import WAIT_S

from flyball.cli.main import run
from flyball.sdk.client import Client
from flyball.sdk.errors import NoControlPlane

FLYBALL = (sys.executable, "-m", "flyball")


class Up:
    """Runs a control plane in a separate process."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        command = [*FLYBALL, "up", "--state", str(state), "--no-agent", *options]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().strip()

    def interrupt(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Send Ctrl-C; return the exit code and the output."""
        self.process.send_signal(number)
        _out, said = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def until(done: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + WAIT_S
    while not (value := done()):
        assert time.monotonic() < deadline_s, "waited in vain"
        time.sleep(0.02)
    return value


@pytest.fixture
def starts(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Start control planes, and kill them afterwards."""
    begun: list[Up] = []

    def start(*options: str, state: Path | None = None) -> Up:
        begun.append(Up(state or tmp_path / "state", *options))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def submit(client: Client, script: str, **more: Any) -> int:
    job = {"argv": ["/bin/sh", "-c", script], "cwd": "/", **more}
    return client.submit_many([job])[0]


def test_from_start_to_the_next_start(
    starts: Callable[..., Up], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 1. It says where it is, and leaves that where only its owner reads.
    first = starts()
    state = first.state
    assert first.first_line.startswith("flyball is up: http://127.0.0.1:")
    endpoint = json.loads((state / "endpoint.json").read_text())
    assert first.first_line.endswith(endpoint["url"])
    assert endpoint["pid"] == first.process.pid
    assert mode(state) == 0o700
    assert [mode(state / name) for name in ("endpoint.json", "token", "journal.db")] == [0o600] * 3

    # 2. A second one on the same folder is to come back later.
    assert run(["up", "--state", str(state), "--no-agent"]) == 75
    said = capsys.readouterr().err
    assert "another control plane uses" in said
    assert said.count("\n") == 1
    assert (state / "endpoint.json").exists()

    # 3. Ctrl-C leaves jobs running.
    go, mark = tmp_path / "go", tmp_path / "mark"
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done; echo $FLYBALL_ATTEMPT >> {mark}"
    with Client(state) as client:
        done = submit(client, "exit 3")
        job = submit(client, wait)
        until(lambda: client.job(job)["state"] == "RUNNING")
        until(lambda: client.job(done)["state"] == "FAILED")
    code, said = first.interrupt()
    assert (code, "running jobs keep running" in said) == (0, True)
    assert not (state / "endpoint.json").exists()
    assert not mark.exists()

    # 4. The next one takes them up.
    second = starts()
    with Client(state) as client:
        assert client.job(job)["state"] == "RUNNING"
        go.touch()
        until(lambda: client.job(job)["state"] == "COMPLETED")
        assert client.job(job)["attempts"] == 1
    assert mark.read_text() == "1\n"
    assert second.interrupt(signal.SIGTERM)[0] == 0

    # 5. What was decided can be decided again.
    capsys.readouterr()
    assert run(["replay", "--decisions", str(state), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["differ"], report["decisions"] >= 1) == (0, True)
    assert run(["replay", "--decisions", str(state)]) == 0
    assert ": 0 differ" in capsys.readouterr().err


def test_whoever_listens_where_a_killed_one_was_gets_no_token(starts: Callable[..., Up]) -> None:
    up = starts("--no-foresight")
    address = urlsplit(json.loads((up.state / "endpoint.json").read_text())["url"])
    up.kill()
    assert (up.state / "endpoint.json").exists(), "nobody was left to remove it"
    with socket.create_server((address.hostname, address.port)) as stranger:
        stranger.settimeout(0.2)
        with pytest.raises(NoControlPlane):
            Client(up.state)
        assert run(["queue", "--state", str(up.state)]) == 75
        with pytest.raises(TimeoutError):
            stranger.accept()


def test_removed_claim_survives_a_restart(starts: Callable[..., Up], tmp_path: Path) -> None:
    """The job continues, runs only once, and its own exit code is reported."""
    up = starts("--no-foresight")
    script = 'echo run >> "$0/runs"; read x < "$0/go"; exit 6'
    os.mkfifo(tmp_path / "go")
    with Client(up.state) as client:
        job = client.submit(["sh", "-c", script, str(tmp_path)])
        until(lambda: client.job(job)["state"] == "RUNNING")
        until((tmp_path / "runs").exists)
    up.kill()
    (up.state / "engine" / f"{job}.1").unlink()
    again = starts("--no-foresight")
    with Client(again.state) as client:
        until((up.state / "engine" / f"{job}.1").exists)
        row = client.job(job)
        assert (row["state"], row["attempts"]) == ("RUNNING", 1)
        send_line(tmp_path / "go")
        until(lambda: client.job(job)["state"] not in ("RUNNING", "COMPLETING"))
        row = client.job(job)
        assert (row["state"], row["exit_code"], row["attempts"]) == ("FAILED", 6, 1)
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_terminal_that_is_closed_ends_it_in_order(starts: Callable[..., Up]) -> None:
    up = starts("--no-foresight")
    assert up.interrupt(signal.SIGHUP)[0] == 0
    assert not (up.state / "endpoint.json").exists()


def test_nodes_that_only_pass_time(
    starts: Callable[..., Up], capsys: pytest.CaptureFixture[str]
) -> None:
    up = starts("--engine", "twin", "--cluster", "five-mixed", "--policy", "srtf")
    assert up.first_line.startswith("flyball is up: ")
    with Client(up.state) as client:
        asked = {"argv": ["x"], "gpus": 1, "estimate_s": 0.2, "cwd": "/"}
        job = client.submit_many([asked])[0]
        until(lambda: client.job(job)["state"] == "COMPLETED")
    assert up.interrupt()[0] == 0
    # A changed decision in the journal is detected.
    assert run(["replay", "--decisions", str(up.state)]) == 0
    with contextlib.closing(sqlite3.connect(up.state / "journal.db")) as database:
        database.execute("update decisions set digest = '00' where number = 1")
        database.commit()
    capsys.readouterr()
    assert run(["replay", "--decisions", str(up.state)]) == 1
    printed = capsys.readouterr()
    assert "what it saw" in printed.out
    assert "decisions differ" in printed.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--engine", "sge"], "--engine sge is unknown"),
        (["--policy", "esay"], "did you mean 'easy'"),
        (["--policy", "fifo,easy"], "names 2 policies"),
        (["--policy", "max-min"], "target shares"),
        (["--set", "round_s=-1"], "round_s"),
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--engine", "twin", "--cluster", "no-such"], "no-such"),
        (["--port", "many"], "--port"),
        (["--rate", "compote=50ms"], "did you mean 'compute'"),
        (["--rate", "compute=1ms"], "use 10ms to 60s"),
        (["--host-watts", "many"], "write e.g. 60:200"),
        (["--keep-days", "0"], "use 0.01 to 3650 days"),
        (["--tune", "none,power"], "unknown live tuner 'none'"),
        (["--pathways", "clusters"], "did you mean 'cluster'?"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_bad_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], why: str
) -> None:
    assert run(["up", "--state", str(tmp_path / "s"), "--no-agent", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    said = printed.err.splitlines()
    assert why in said[-1]
    assert len(said) == 1 or "compil" in said[0]


def test_a_folder_that_others_may_write_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chmod(state, 0o777)
    assert run(["up", "--state", str(state), "--no-agent"]) == 2
    said = capsys.readouterr().err
    assert "others may write to the state folder" in said
    assert f"chmod 700 {state}" in said


def test_decisions_of_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--decisions", str(tmp_path)]) == 2
    assert "does not exist" in capsys.readouterr().err
