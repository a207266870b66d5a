"""`--notify` from every way to submit, with a real server, real jobs and a real web hook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hooks import Hook, await_true, hook_server

from flyball.cli.main import run
from flyball.sdk.client import ApiError, Client


@pytest.fixture
def hook() -> Iterator[Hook]:
    with hook_server() as server:
        yield server


class Up:
    """Runs control planes in separate processes, one after the other on the same folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "flyball", "up", "--state", str(self.state)]
        self.process = subprocess.Popen(
            [*command, "--no-agent", "--no-foresight"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert "flyball is up" in self.process.stdout.readline()

    def end(self, kill: bool = False) -> None:
        if self.process is not None:
            (self.process.kill if kill else self.process.terminate)()
            self.process.communicate()
            self.process = None


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FLYBALL_TOKEN", "of-the-server")
    server = Up(tmp_path / "state")
    server.start()
    yield server
    server.end(kill=True)


def answered(client: Client, job: int) -> list[dict[str, Any]]:
    """Wait for the result of every notification, and return them."""
    await_true(
        lambda: all(target["ok"] is not None for target in client.job(job)["notify"]), f"job {job}"
    )
    targets: list[dict[str, Any]] = client.job(job)["notify"]
    return targets


def test_every_way_to_submit(
    up: Up, hook: Hook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "tell.sh"
    script.write_text(
        'env > "$1.new"; cat > "$1.json"; mv "$1.new" "$1"; test "$FLYBALL_JOB_STATE" = COMPLETED\n'
    )
    (tmp_path / "job.sh").write_text(
        f'#!/bin/sh\n#SBATCH --notify={hook.url}/script\n#SBATCH --notify="sh tell.sh two"\ntrue\n'
    )
    (tmp_path / "job.yaml").write_text(
        f"command: [\"false\"]\nnotify: ['{hook.url}/file', [sh, tell.sh, three]]\n"
    )
    url = f"{hook.url}/line"
    for line in (
        ["submit", "--notify", url, "--notify", "sh tell.sh one", "--", "true"],
        ["submit", "job.sh"],
        ["submit", "job.yaml"],
    ):
        assert run(line) == 0
    with Client(up.state) as client:
        pending = client.submit(["true"], hold=True, notify=[f"{hook.url}/client"])
        client.cancel(pending)
        good, bad = ["HTTP 204", "exit code 0"], ["HTTP 204", "exit code 1"]
        for job, messages in ((1, good), (2, good), (3, bad), (pending, ["HTTP 204"])):
            assert [entry["message"] for entry in answered(client, job)] == messages
    paths = {entry.path: entry.body["state"] for entry in hook.posted}
    assert paths == {
        "/line": "COMPLETED", "/script": "COMPLETED", "/file": "FAILED", "/client": "CANCELLED"
    }  # fmt: skip
    token = (up.state / "token").read_text().strip()
    for name in ("one", "two", "three"):
        printed = (tmp_path / name).read_text()
        assert token not in printed
        assert "of-the-server" not in printed
        assert json.loads((tmp_path / f"{name}.json").read_text())["attempts"] == 1
    assert all(token not in json.dumps(entry) for entry in hook.posted)

    capsys.readouterr()
    assert run(["show", "3"]) == 0
    shown = capsys.readouterr().out
    assert f"{hook.url}/...: sent, HTTP 204" in shown
    assert "sh tell.sh three: FAILED, exit code 1" in shown
    up.end()
    assert run(["replay", "--decisions", str(up.state)]) == 0
    assert ": 0 differ" in capsys.readouterr().err


def test_killed_server_tells_again_after_its_restart(up: Up, hook: Hook, tmp_path: Path) -> None:
    script = "echo $$ >> runs; test -e open || exec sleep 600"
    with Client(up.state) as client:
        posted = client.submit(["true"], notify=[f"{hook.url}/blocked"])
        ran = client.submit(["true"], notify=[["sh", "-c", script]])
        await_true(lambda: hook.posted and (tmp_path / "runs").exists())
        assert client.job(posted)["notify"][0]["ok"] is None
    up.end(kill=True)
    first = (tmp_path / "runs").read_text().split()[0]
    await_true(lambda: not Path(f"/proc/{first}").exists(), "the end of the command")
    (tmp_path / "open").touch()
    hook.opened.set()
    up.start()
    with Client(up.state) as client:
        assert [target["message"] for target in answered(client, posted)] == ["HTTP 204"]
        assert [target["message"] for target in answered(client, ran)] == ["exit code 0"]
    assert hook.ids() == [posted, posted]
    assert len((tmp_path / "runs").read_text().split()) == 2


def test_targets_are_checked_at_submit(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    for target, problem in (
        ("ftp://localhost/x", "ftp:// cannot be posted to; use http:// or https://"),
        ("", "neither a URL nor a command"),
        ("sh 'oh", "close the quotation"),
        ("no-such-program", "no program 'no-such-program' on the job's PATH"),
    ):
        for more in ([], ["--dry-run"]):
            assert run(["submit", *more, "--notify", target, "--", "true"]) == 2
            assert problem in capsys.readouterr().err
    with Client(up.state) as client:
        with pytest.raises(ApiError, match="not a URL") as caught:
            client.submit(["true"], notify=["http://localhost:x/"])
        assert caught.value.status == 422
        with pytest.raises(ApiError, match="notify") as caught:
            client.submit(["true"], notify=["true"] * 17)
        assert caught.value.status == 422
