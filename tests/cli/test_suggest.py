"""Unknown commands and options are answered with what was probably meant."""

from __future__ import annotations

import pytest

from flyball.cli.main import PARTS, run
from flyball.cli.suggest import COMMANDS, instead_of_option


def refusal(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert run(line.split()) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *((word, "queue") for word in ("status", "ps", "ls", "squeue")),
        *((word, "cancel") for word in ("kill", "scancel")),
        ("sbatch", "submit"),
        ("sinfo", "nodes"),
        ("sacct", "queue --all"),
    ],
)
def test_commands_of_other_tools(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    assert refusal(capsys, f"{typed} 12") == (
        f"flyball: No such command '{typed}'. Did you mean 'flyball {meant}'?; see flyball --help\n"
    )


def test_suggested_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert not set(COMMANDS) & set(PARTS)
    for meant in sorted(set(COMMANDS.values())):
        assert run([*meant.split(), "--help"]) == 0, meant
    capsys.readouterr()


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("submit --cpu 2 -- true", "--cpus-per-task"),
        ("submit --cores 2 -- true", "--cpus-per-task"),
        ("submit --gpu 1 -- true", "--gpus"),
        ("submit --memory 2G -- true", "--mem"),
        ("submit --timeout 9 -- true", "--time"),
        ("queue --status RUNNING", "--states"),
        ("receipt --jsn 1", "--json"),
        ("bench compare --polices fifo", "--policies"),
    ],
)
def test_options(capsys: pytest.CaptureFixture[str], line: str, meant: str) -> None:
    said = refusal(capsys, line)
    typed = next(word for word in line.split() if word.startswith("--"))
    assert f"No such option '{typed}'. Did you mean '{meant}'?; see flyball " in said
    assert said.count("\n") == 1


def test_nothing_close_is_suggested_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "queue --gpu 3") == (
        "flyball: No such option '--gpu'; see flyball queue --help\n"
    )
    assert refusal(capsys, "frobnicate") == (
        "flyball: No such command 'frobnicate'; see flyball --help\n"
    )
    assert instead_of_option("--time", ["--limit", "--name", "--state"]) is None
