"""A program that is forked waits at its gate: it runs when it is let go, and not before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.until import until

from flyball.engines.local import proc
from flyball.engines.local.program import NOT_STARTED, Program


def request(*argv: str) -> dict[str, Any]:
    env = {"PATH": os.defpath}
    return {"argv": list(argv), "cwd": "/", "env": env, "cores": [], "nice": 0}


@pytest.fixture
def output(tmp_path: Path) -> int:
    return os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)


def nothing() -> None:
    """Close nothing in the child."""


def until_ready(program: Program) -> None:
    """Wait until it sleeps at its gate, or has ended."""

    def ready() -> bool:
        process = proc.stat(program.pid)
        return process is not None and process.state in "SZ"

    until(ready)


def exit_code(program: Program) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(program.pid, 0)[1])


def test_it_runs_only_when_it_is_let_go(tmp_path: Path, output: int) -> None:
    mark = tmp_path / "mark"
    program = Program(request("touch", str(mark)), (output, output), None, nothing)
    until_ready(program)
    assert not mark.exists()
    assert program.run() == ""
    assert exit_code(program) == 0
    assert mark.exists()


def test_it_lets_go_of_what_is_not_its_own(output: int) -> None:
    hear, tell = os.pipe()
    program = Program(request("true"), (output, output), None, lambda: os.close(tell))
    os.close(tell)
    assert os.read(hear, 1) == b""  # nobody has the other end, though it still waits
    assert os.waitpid(program.pid, os.WNOHANG) == (0, 0)
    program.drop()
    os.close(hear)


def test_what_is_dropped_never_runs(tmp_path: Path, output: int) -> None:
    mark = tmp_path / "mark"
    program = Program(request("touch", str(mark)), (output, output), None, nothing)
    program.drop()
    with pytest.raises(ChildProcessError):
        os.waitpid(program.pid, 0)
    assert not mark.exists()


def test_what_is_wrong_is_told_when_it_is_let_go(output: int) -> None:
    for wrong, why in (
        (request("no-such-program"), "could not start: no-such-program: no such file or directory"),
        ({**request("true"), "cwd": "/no"}, "could not start: folder /no: no such file"),
    ):
        program = Program(wrong, (output, output), None, nothing)
        until_ready(program)  # one has failed by then, the other waits at the gate
        assert program.run().startswith(why)
        assert exit_code(program) == NOT_STARTED
