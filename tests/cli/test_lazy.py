"""Commands are imported when they are called, and the tables of them say what they are."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
from typer.core import TyperGroup
from typer.main import get_group

import flyball.cli
from flyball.cli.lazy import LazyCommand
from flyball.cli.main import app, run

FRAME = {"flyball.cli", "flyball.cli.lazy", "flyball.cli.main", "flyball.cli.suggest"}
SHARED = {"flyball.cli.options", "flyball.cli.output"}
HEAVY = {
    "alembic", "fastapi", "httpx", "lightgbm", "matplotlib", "numba", "numpy", "pandas", "polars",
    "psutil", "pyarrow", "rich", "scipy", "sqlalchemy", "torch", "uvicorn", "yaml",
}  # fmt: skip
CHECKS = {"pydantic"}
"""Typer loads it as soon as there are arguments to check."""
LIMITS = (20, 45, 60, 80, 1000)
"""Columns that the help may leave for what a command does."""
PROGRAM = """
import json, sys
from flyball.cli.main import run
code = max(run(each.split()) for each in sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def loaded(*commands: str, code: int = 0) -> set[str]:
    """Modules that a process has in the end which ran these commands."""
    program = [sys.executable, "-c", PROGRAM, *commands]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    found = json.loads(done.stderr.splitlines()[-1])
    assert found["code"] == code
    return set(found["modules"])


def of_cli(modules: set[str]) -> set[str]:
    return {each for each in modules if each.startswith("flyball.cli")}


def commands(group: TyperGroup, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(name, the command as the help has it, the command itself) of all there are."""
    for name, shown in group.commands.items():
        real = shown.part.load(name) if isinstance(shown, LazyCommand) else shown
        yield f"{path}{name}", shown, real
        if isinstance(real, TyperGroup):
            yield from commands(real, f"{path}{name} ")


ALL = {name: (shown, real) for name, shown, real in commands(get_group(app))}


# What is imported ---------------------------------------------------------------------


def test_help_loads_no_command() -> None:
    found = loaded("--help")
    assert of_cli(found) == FRAME
    assert not found & (HEAVY | CHECKS)


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("quee", 2)])
def test_what_is_no_command_loads_none(argument: str, code: int) -> None:
    found = loaded(argument, code=code)
    assert of_cli(found) == FRAME
    assert not found & HEAVY


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("queue", {"queue", "live_options", "holding"}),
        ("policies", {"catalogue"}),
        ("doctor", {"doctor", "live_options"}),
        (
            "submit",
            {"submit", "drafts", "job_file", "sbatch", "batch_script", "slurm_options"}
            | {"live_options", "program_check", "begin_time"},
        ),
        ("demo", {"demo"}),
        ("trace describe", {"trace"}),
        ("trace export", {"trace", "export", "live_options"}),
    ],
)
def test_a_command_loads_what_it_needs(command: str, needed: set[str]) -> None:
    found = loaded(f"{command} --help")
    assert of_cli(found) - SHARED == FRAME | {f"flyball.cli.{each}" for each in needed}
    assert not found & HEAVY


@pytest.mark.parametrize("group", ["bench", "predict"])
def test_help_of_a_group_loads_none_of_its_commands(group: str) -> None:
    found = loaded(f"{group} --help")
    assert of_cli(found) == FRAME | {f"flyball.cli.{group}"}
    assert not found & HEAVY


def test_help_of_all_commands_loads_nothing_heavy() -> None:
    assert not loaded(*(f"{name} --help" for name in ALL)) & HEAVY


# What the tables say ------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_help_says_of_a_command_what_it_says_itself(name: str) -> None:
    shown, real = ALL[name]
    assert shown.get_short_help_str(1000)
    for limit in LIMITS:
        assert shown.get_short_help_str(limit) == real.get_short_help_str(limit)
    assert shown.name == real.name == name.split()[-1]
    assert not real.hidden


def test_no_command_is_forgotten() -> None:
    """Whatever has examples shows them in its help."""
    epilogs = {real.epilog for _shown, real in ALL.values()}
    for found in pkgutil.iter_modules(flyball.cli.__path__):
        module = import_module(f"flyball.cli.{found.name}")
        for name, value in vars(module).items():
            if name.endswith("EXAMPLES"):
                assert value in epilogs, f"{found.name}.{name}"


@pytest.mark.parametrize("name", ALL)
def test_help_of_every_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run([*name.split(), "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: flyball {name} ")


def test_an_unknown_command_has_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, right, where in (
        ("quee", "queue", "flyball"),
        ("bench twn", "twin", "flyball bench"),
        ("demo lve", "live", "flyball demo"),
    ):
        assert run(wrong.split()) == 2
        typed = wrong.split()[-1]
        line = f"flyball: No such command '{typed}'. Did you mean '{right}'?; see {where} --help\n"
        assert capsys.readouterr().err == line
