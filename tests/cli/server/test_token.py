"""`flyball token rotate`, with and without a running control plane."""

from __future__ import annotations

import json
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests.cli.server.test_up import Up, starts, until

from flyball.cli.main import run
from flyball.sdk.client import Client

__all__ = ["starts"]

REPORTS = """
import pathlib, sys, time
import flyball
flyball.report(step=1)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
flyball.report(step=2)
while not pathlib.Path(sys.argv[1] + "-on").exists():
    time.sleep(0.02)
with flyball.Client() as client:
    print("asked", client.job(int(sys.argv[2]))["state"])
"""


def status(url: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.get(f"{url}/api/v1/queue", headers=headers, trust_env=False).status_code


def step_of(client: Client, job: int) -> object:
    """Return the step that the job last reported."""
    return client.progress(job).get("step")


def read_token(state: Path) -> str:
    return (state / "token").read_text().strip()


def test_running_control_plane_takes_the_new_token(
    starts: Callable[..., Up], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    up = starts("--no-foresight", "--agent")
    state, go = up.state, tmp_path / "go"
    url = json.loads((state / "endpoint.json").read_text())["url"]
    old = read_token(state)
    program = tmp_path / "reports.py"
    program.write_text(REPORTS)
    with Client(state) as client:
        job = client.submit([sys.executable, str(program), str(go), "1"])
        until(lambda: step_of(client, job) == 1)
        assert status(url, old) == 200

        # 1. The new one is accepted at once and the old one refused; neither is printed.
        assert run(["token", "rotate", "--state", str(state)]) == 0
        said = capsys.readouterr()
        new = read_token(state)
        assert new != old
        assert stat.S_IMODE((state / "token").stat().st_mode) == 0o600
        assert (status(url, new), status(url, old)) == (200, 401)
        assert str(state / "token") in said.out
        assert "refuses the old one" in said.out
        assert not any(token in said.out + said.err for token in (old, new))

        # 2. A client from before goes on, and so does the job with its reports and questions.
        assert client.job(job)["state"] == "RUNNING"
        go.touch()
        until(lambda: step_of(client, job) == 2)
        (tmp_path / "go-on").touch()
        until(lambda: client.job(job)["state"] == "COMPLETED")
        assert "asked RUNNING" in (state / "logs" / f"{job}.1.out").read_text()

    # 3. It is still the same process, which says what happened and prints no token either.
    assert up.process.poll() is None
    code, said_by_up = up.interrupt()
    assert code == 0
    assert "the token was replaced" in said_by_up
    assert not any(token in said_by_up for token in (old, new))


def test_streams_of_the_old_token_end(starts: Callable[..., Up], tmp_path: Path) -> None:
    up = starts("--no-foresight")
    url = json.loads((up.state / "endpoint.json").read_text())["url"]
    headers = {"Authorization": f"Bearer {read_token(up.state)}"}
    with (
        httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=120.0) as old,
        old.stream("GET", "/api/v1/events") as stream,
        Client(up.state) as client,
    ):
        assert stream.status_code == 200
        heard: list[str] = []
        listening = threading.Event()

        def listen() -> None:
            for line in stream.iter_lines():
                heard.append(line)
                listening.set()

        thread = threading.Thread(target=listen)
        thread.start()
        assert listening.wait(120.0)
        assert run(["token", "rotate", "--state", str(up.state)]) == 0
        job = client.submit(["true"], name="after-the-change")
        until(lambda: client.job(job)["state"] == "COMPLETED")
        thread.join(120.0)
        assert not thread.is_alive(), "the stream goes on"
        assert "after-the-change" not in "".join(heard)
        # A follower of our own client takes the new token, and goes on.
        assert next(iter(client.events(after=0)))
    up.interrupt()


def test_rotation_by_hand_is_taken_too(starts: Callable[..., Up]) -> None:
    up = starts("--no-foresight")
    url = json.loads((up.state / "endpoint.json").read_text())["url"]
    old = read_token(up.state)
    draft = up.state / "mine"
    draft.write_text("m" * 40)
    draft.chmod(0o600)
    draft.replace(up.state / "token")
    assert status(url, "m" * 40) == 200
    assert status(url, old) == 401
    # What is no secret is passed over: the last good one stays.
    (up.state / "token").write_text("short")
    assert (status(url, "short"), status(url, "m" * 40)) == (401, 200)
    up.interrupt()


def test_rotation_without_a_control_plane(
    starts: Callable[..., Up], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "token").write_text("unusable")
    assert run(["token", "rotate", "--state", str(state), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer == {"token_file": str(state / "token"), "running": False}
    first = read_token(state)
    assert run(["token", "rotate", "--state", str(state), "--show"]) == 0
    second = read_token(state)
    assert second != first
    assert second in capsys.readouterr().out.splitlines()
    assert sorted(path.name for path in state.iterdir()) == ["token"]
    up = starts("--no-foresight")
    url = json.loads((up.state / "endpoint.json").read_text())["url"]
    assert (status(url, second), status(url, first)) == (200, 401)
    up.interrupt()


def test_rotation_of_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "rotate", "--state", str(tmp_path / "none")]) == 2
    assert "there is no state folder" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_tokens_of_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ["--state", str(tmp_path)]
    tmp_path.chmod(0o700)
    assert run(["token", "list", *state]) == 0
    assert "no user has a token" in capsys.readouterr().out
    assert run(["token", "add", "ada", "--role", "user", *state]) == 0
    said = capsys.readouterr()
    token = said.out.strip()
    assert token.startswith("fbu_")
    assert "cannot be shown again" in said.err
    assert run(["token", "add", "eve", "--role", "viewer", "--json", *state]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["role"], shown["url"]) == ("eve", "viewer", None)
    assert run(["token", "list", *state]) == 0
    listed = capsys.readouterr().out
    assert "ada" in listed
    assert "viewer" in listed
    assert token not in listed
    assert run(["token", "rotate", "ada", *state]) == 0
    assert capsys.readouterr().out.strip() not in ("", token)
    assert run(["token", "revoke", "ada", *state]) == 0
    assert "ada (user) is revoked" in capsys.readouterr().out
    assert run(["token", "list", "--json", *state]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == ["eve"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["add", "ada", "--role", "admin"], "unknown role 'admin'"),
        (["add", "a b"], "cannot be the name"),
        (["revoke", "ada"], "has no token"),
        (["rotate", "ada"], "has no token"),
    ],
)
def test_refused_token_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    tmp_path.chmod(0o700)
    assert run(["token", *words, "--state", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
