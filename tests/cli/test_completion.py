"""Completion in real shells, and that it stays light."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.until import WAIT_S
from typer.main import get_group

from flyball.cli.completion import SCRIPTS, candidates
from flyball.cli.main import COMPLETE, app, run

FLYBALL = Path(sys.executable).parent
BASH_TYPES = """
source <(flyball completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_flyball
printf '%s\\n' "${COMPREPLY[@]}"
complete -p flyball
"""


def words(*typed: str) -> list[str]:
    return [word for word, _meaning in candidates(get_group(app), typed)]


def shell(command: Sequence[str]) -> list[str]:
    env = os.environ | {"PATH": f"{FLYBALL}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash() -> None:
    def typed(*line: str) -> list[str]:
        return shell(["bash", "--norc", "-c", BASH_TYPES, "bash", *line])

    registered = "complete -o default -F _flyball flyball"
    assert typed("flyball", "su") == ["submit", registered]
    assert typed("flyball", "submit", "--dry") == ["--dry-run", registered]
    assert typed("flyball", "bench", "tw") == ["twin", registered]
    assert typed("flyball", "replay", "--policy", "fifo-f") == ["fifo-fast", registered]
    assert typed("flyball", "submit", "--", "pyth") == ["", registered]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh() -> None:
    shell(
        ["zsh", "-f", "-c", 'autoload -U compinit; compinit -u; eval "$(flyball completion zsh)"']
    )


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish() -> None:
    lines = shell(
        ["fish", "-N", "-c", "flyball completion fish | source; complete -C 'flyball su'"]
    )
    assert [line.split("\t")[0] for line in lines] == ["submit"]


def test_words() -> None:
    assert {"up", "queue", "completion"} <= set(words(""))
    assert words("queue", "--a") == ["--all", "--account"]
    assert words("queue", "--states", "RUN") == ["RUNNING"]
    assert words("submit", "--mem", "") == [], "the shell completes what we cannot"
    assert words("completion", "") == list(SCRIPTS)
    assert words("nosuch", "x") == []


def test_job_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        """Has two jobs, one of which has ended."""

        jobs_ = ({"label": "12_3", "name": "a", "state": "RUNNING"},)
        ended = ({"label": "11", "name": "b", "state": "FAILED"},)

        def __enter__(self) -> Server:
            return self

        def __exit__(self, *_error: object) -> None: ...

        def queue(self, limit: int) -> list[dict[str, Any]]:
            return list(self.jobs_)

        def jobs(self, limit: int) -> list[dict[str, Any]]:
            return [*self.jobs_, *self.ended]

    monkeypatch.setattr("flyball.sdk.client.Client", Server)
    assert words("cancel", "") == ["12_3"]
    assert words("logs", "1") == ["12_3", "11"]


def test_no_server_is_no_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLYBALL_STATE", str(tmp_path))
    assert run([COMPLETE, "show", ""]) == 1
    assert capsys.readouterr() == ("", "")


def test_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "csh"]) == 2
    assert "choose one of bash, zsh, fish" in capsys.readouterr().err


def test_completing_loads_nothing_heavy() -> None:
    code = (
        "import sys; from flyball.cli.main import run; run(['__complete', 'submit', '--g']);"
        "print(*sys.modules)"
    )
    loaded = set(shell([sys.executable, "-c", code])[-1].split())
    assert not loaded & {"numpy", "numba", "rich", "httpx", "pydantic", "fastapi"}
