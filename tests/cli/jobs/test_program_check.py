"""`flyball submit` with a script where a program should be: nothing is submitted."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.cli.jobs.parse_job import parse_command
from flyball.cli.main import run
from flyball.core.errors import BadInput


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYBALL_STATE", str(tmp_path / "nobody-home"))
    Path("train.py").write_text("print('hello')\n")
    Path("plain.sh").write_text("echo hello\n")


@pytest.mark.parametrize(
    ("command", "dashes", "problem", "meant"),
    [
        (["train.py"], False, "train.py is not on your PATH", "python train.py"),
        (["train.py", "--lr", "1 e"], True, "is not on your PATH", "python train.py --lr '1 e'"),
        (["./train.py"], False, "./train.py is not executable", "python ./train.py"),
        (["./plain.sh", "3"], True, "./plain.sh is not executable", "bash ./plain.sh 3"),
        (["plain.sh"], True, "plain.sh is not on your PATH", "flyball submit plain.sh"),
    ],
)
def test_script_in_place_of_a_program(
    command: list[str], dashes: bool, problem: str, meant: str
) -> None:
    with pytest.raises(BadInput) as caught:
        parse_command(command, {}, dashes)
    assert problem in str(caught.value)
    assert "did you mean: " in str(caught.value)
    assert meant in str(caught.value)


def test_the_command_line_says_it_before_it_looks_for_a_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["submit", "train.py"]) == 2
    said = "flyball: train.py is not on your PATH; did you mean: python train.py\n"
    assert capsys.readouterr().err == said


def test_executable_without_an_interpreter_line() -> None:
    Path("train.py").chmod(0o755)
    with pytest.raises(BadInput, match=r"has no #! line .*did you mean: python \./train\.py"):
        parse_command(["./train.py"], {}, dashes=False)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(BadInput, match=r"gone\.py: no such file in"):
        parse_command(["gone.py"], {}, dashes=False)


def test_job_files_are_checked_as_well() -> None:
    Path("job.yaml").write_text("command: [./train.py]\n")
    with pytest.raises(BadInput, match=r"did you mean: python \./train\.py"):
        parse_command(["job.yaml"], {}, dashes=False)


def test_what_can_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "tool.py"
    tool.parent.mkdir()
    tool.write_text("#!/usr/bin/env python3\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/bin")
    for command, dashes in (
        (["tool.py"], True),
        (["bin/tool.py"], True),
        (["./made-by-the-job-before.py"], True),
        (["plain.sh"], False),
        (["python3", "train.py"], False),
    ):
        [draft] = parse_command(command, {}, dashes).drafts
        assert draft.values["argv"]


def test_relative_paths_are_resolved_where_the_job_runs(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "run.py").write_text("pass\n")
    with pytest.raises(BadInput, match=r"did you mean: python run\.py"):
        parse_command(["run.py"], {"chdir": "sub"}, dashes=True)
