"""`flyball up -d` and `flyball down`, as real processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.server.test_up import submit, until
from tests.until import WAIT_S

from flyball.api.state_folder import locked, open_state
from flyball.sdk.client import Client
from flyball.sdk.endpoint import find_process

FLYBALL = (sys.executable, "-m", "flyball")
QUIET = ("--no-agent", "--no-foresight")


def flyball(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its output is a pipe, so a child that keeps it open is noticed."""
    return subprocess.run([*FLYBALL, *arguments], capture_output=True, text=True, timeout=WAIT_S)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Yield a state folder; a server that still runs in it afterwards is stopped."""
    folder = tmp_path / "state"
    yield folder
    pid = find_process(folder)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        until(lambda: find_process(folder) is None)


def test_up_in_the_background_and_down(state: Path, tmp_path: Path) -> None:
    # 1. It returns while the control plane goes on, and says how to stop it.
    up = flyball("up", "-d", "--state", str(state), *QUIET)
    assert up.returncode == 0, up.stderr
    endpoint = json.loads((state / "endpoint.json").read_text())
    lines = up.stdout.splitlines()
    assert lines[0] == f"flyball is up: {endpoint['url']}"
    assert f"  log {state / 'up.log'}" in lines
    assert f"  open the dashboard with: flyball open --state {state}" in lines
    assert f"  stop it with: flyball down --state {state}" in lines
    assert os.getsid(endpoint["pid"]) == endpoint["pid"], "closing the terminal would end it"
    token = (state / "token").read_text().strip()
    log = state / "up.log"
    until(lambda: "useful commands" in log.read_text())
    assert token not in log.read_text() + up.stdout + up.stderr
    assert log.stat().st_mode & 0o077 == 0

    # 2. A second one says why it does not start, as it would in the foreground.
    second = flyball("up", "--detach", "--state", str(state), *QUIET)
    assert (second.returncode, second.stdout) == (75, "")
    assert "another control plane uses" in second.stderr

    # 3. It is stopped in order, and its job runs on to the next start.
    go = tmp_path / "go"
    with Client(state) as client:
        job = submit(client, f"while [ ! -e {go} ]; do sleep 0.02; done; exit 5")
        until(lambda: client.job(job)["state"] == "RUNNING")
    down = flyball("down", "--state", str(state))
    assert down.returncode == 0, down.stderr
    assert down.stdout == f"stopped the control plane of {state}; 1 job keeps running\n"
    assert not (state / "endpoint.json").exists()
    assert "stopping; running jobs keep running" in log.read_text()

    # 4. Stopping what does not run says so.
    again = flyball("down", "--state", str(state))
    assert (again.returncode, again.stdout) == (0, f"no control plane runs in {state}\n")

    # 5. The next one takes the job up.
    assert flyball("up", "-d", "--state", str(state), *QUIET).returncode == 0
    with Client(state) as client:
        row = client.job(job)
        assert (row["state"], row["attempts"]) == ("RUNNING", 1)
        go.touch()
        until(lambda: client.job(job)["state"] == "FAILED")
        assert client.job(job)["exit_code"] == 5
    stopped = flyball("down", "--state", str(state), "--json")
    answer = json.loads(stopped.stdout)
    assert (answer["stopped"], answer["running_jobs"]) == (True, 0)
    assert json.loads(flyball("down", "--state", str(state), "--json").stdout)["stopped"] is False


def test_start_that_fails_shows_the_end_of_its_log(state: Path) -> None:
    state.mkdir(mode=0o700)
    (state / "up.log").write_text("of an earlier start\n")
    (state / "journal.db").write_bytes(b"no database at all, " * 1000)
    up = flyball("up", "-d", "--state", str(state), *QUIET)
    assert (up.returncode, up.stdout) == (2, "")
    lines = up.stderr.splitlines()
    assert "journal.db is damaged" in lines[-2]
    log = state / "up.log"
    assert lines[-1] == f"flyball: the server did not start (exit code 2); its log is {log}"
    assert "earlier start" not in up.stderr
    assert "journal.db is damaged" in (state / "up.log").read_text()


def test_bad_option_is_refused_in_the_background_too(state: Path) -> None:
    up = flyball("up", "-d", "--state", str(state), "--policy", "esay", *QUIET)
    assert (up.returncode, up.stdout) == (2, "")
    assert "did you mean 'easy'" in up.stderr


def test_down_leaves_a_stranger_alone(state: Path) -> None:
    """The pid of a killed control plane may belong to another process by now."""
    state.mkdir(mode=0o700)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        endpoint = {"url": "http://127.0.0.1:1", "pid": stranger.pid, "start": 1, "ca": ""}
        (state / "endpoint.json").write_text(json.dumps(endpoint))
        down = flyball("down", "--state", str(state))
        assert (down.returncode, down.stdout) == (0, f"no control plane runs in {state}\n")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_down_while_one_is_starting(state: Path) -> None:
    with locked(open_state(state)):
        down = flyball("down", "--state", str(state))
    assert (down.returncode, down.stdout) == (75, "")
    assert "has not published its address yet; try again" in down.stderr


def test_background_keeps_none_of_the_callers_files_open(state: Path) -> None:
    """The server must not keep a lock or a pipe of its calling script open."""
    heard, told = os.pipe()
    try:
        command = [*FLYBALL, "up", "-d", "--state", str(state), *QUIET]
        subprocess.run(
            command, pass_fds=[told], check=True, timeout=WAIT_S, stdout=subprocess.DEVNULL
        )
        os.close(told)
        assert select.select([heard], [], [], 60.0)[0], "somebody still holds the other end"
        assert os.read(heard, 1) == b""
    finally:
        os.close(heard)
