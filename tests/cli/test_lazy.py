"""Commands are imported when they are called, and their tables match their help."""

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

FRAME = {"lazy", "main", "suggest"}
"""Modules of `flyball.cli` that every call loads."""
SHARED = {"formats", "live", "options", "output"}
MODULES = {
    info.name: info.ispkg for info in pkgutil.walk_packages(flyball.cli.__path__, "flyball.cli.")
}
"""Every module below `flyball.cli`, and whether it is a package."""
HEAVY = {
    "alembic", "fastapi", "httpx", "lightgbm", "matplotlib", "numba", "numpy", "pandas", "polars",
    "psutil", "pyarrow", "rich", "scipy", "sqlalchemy", "torch", "uvicorn", "yaml",
}  # fmt: skip
CHECKS = {"pydantic"}
"""Typer loads these as soon as there are arguments to check."""
LIMITS = (20, 45, 60, 80, 1000)
"""Widths, in columns, that the help may leave for a command's summary."""
PROGRAM = """
import json, sys
from flyball.cli.main import run
code = max(run(command.split()) for command in sys.argv[1:])
print(json.dumps({"code": code, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


def loaded(*commands: str, code: int = 0) -> set[str]:
    """Return the modules that a process has loaded after it ran these commands."""
    program = [sys.executable, "-c", PROGRAM, *commands]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["code"] == code
    return set(report["modules"])


def of_cli(modules: set[str]) -> set[str]:
    """Return the modules below `flyball.cli` without that prefix; packages are left out."""
    return {name.removeprefix("flyball.cli.") for name in modules if MODULES.get(name) is False}


def commands(group: TyperGroup, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, the command as the help lists it, the command itself) for all commands."""
    for name, shown in group.commands.items():
        real = shown.part.load(name) if isinstance(shown, LazyCommand) else shown
        yield f"{path}{name}", shown, real
        if isinstance(real, TyperGroup):
            yield from commands(real, f"{path}{name} ")


ALL = {name: (shown, real) for name, shown, real in commands(get_group(app))}


# What is imported ---------------------------------------------------------------------


def test_help_loads_no_command() -> None:
    modules = loaded("--help")
    assert of_cli(modules) == FRAME
    assert not modules & (HEAVY | CHECKS)


@pytest.mark.parametrize(("argument", "code"), [("--version", 0), ("quee", 2)])
def test_what_is_no_command_loads_none(argument: str, code: int) -> None:
    modules = loaded(argument, code=code)
    assert of_cli(modules) == FRAME
    assert not modules & HEAVY


@pytest.mark.parametrize(
    ("command", "needed"),
    [
        ("queue", {"jobs.queue", "jobs.hold"}),
        ("policies", {"catalogue"}),
        ("doctor", {"server.doctor"}),
        (
            "submit",
            {"jobs.submit", "jobs.parse_job", "jobs.job_file", "jobs.sbatch", "jobs.batch_script"}
            | {"jobs.slurm_options", "jobs.program_check", "jobs.begin_time", "jobs.notation"}
            | {"jobs.job_options"},
        ),
        ("demo", {"replay.demo"}),
        ("trace describe", {"trace.group"}),
        ("trace export", {"trace.group", "trace.export"}),
    ],
)
def test_a_command_loads_what_it_needs(command: str, needed: set[str]) -> None:
    modules = loaded(f"{command} --help")
    assert of_cli(modules) - SHARED == FRAME | needed
    assert not modules & HEAVY


@pytest.mark.parametrize("group", ["bench", "predict"])
def test_help_of_a_group_loads_none_of_its_commands(group: str) -> None:
    modules = loaded(f"{group} --help")
    assert of_cli(modules) == FRAME | {f"{group}.group"}
    assert not modules & HEAVY


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
    """A module that has examples shows them in its help."""
    epilogs = {real.epilog for _shown, real in ALL.values()}
    for path in MODULES:
        for name, value in vars(import_module(path)).items():
            if name.endswith("EXAMPLES"):
                assert value in epilogs, f"{path}.{name}"


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
