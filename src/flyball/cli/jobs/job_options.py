"""The options of `flyball submit` that describe a job, from the table of a job's fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from flyball.cli.jobs.slurm_options import NTASKS, REPEATABLE, SEPARATOR
from flyball.core.job_fields import FIELDS
from flyball.core.job_fields.field import JobField


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )


def _text_option(names: tuple[str, ...], help: str, metavar: str) -> Any:
    """Declare an option whose text is parsed later, together with the options of scripts."""
    return typer.Option(*names, help=help, metavar=metavar, show_default=False)


def _parameters() -> list[inspect.Parameter]:
    parameters = []
    for row in FIELDS.values():
        about = row.help or row.meaning
        if row.is_switch and (row.option or row.off):
            switch = "/".join(name for name in (*row.option[:1], row.off) if name)
            option = typer.Option(switch, *row.option[1:], help=about)
            parameters.append(_parameter(row.name, bool | None, option))
        elif row.option:
            kind = list[str] | None if row.long_option in REPEATABLE else str | None
            option = _text_option(row.option, about, row.metavar)
            parameters.append(_parameter(row.name, kind, option))
    names = (f"--{NTASKS[0]}", f"-{NTASKS[1]}")
    tasks = _text_option(names, "Tasks; the job gets -n times -c cores.", "N")
    return [*parameters, _parameter(NTASKS[0], str | None, tasks)]


PARAMETERS = _parameters()


def with_job_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a job to a command that takes them as `**stated`."""
    signature = inspect.signature(command, eval_str=True)
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in signature.parameters.values()
        if parameter.kind != inspect.Parameter.VAR_KEYWORD
    ]
    first, last = own[:2], own[2:]
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*first, *PARAMETERS, *last]
    )
    return command


def written(stated: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that a command line states, by long name; a flag's value is ""."""
    options: dict[str, str] = {}
    for name, value in stated.items():
        if value is None:
            continue
        if name == NTASKS[0]:
            options[name] = value
            continue
        row = FIELDS[name]
        if row.is_switch:
            options[(row.off if row.off and not _is_on(row, value) else row.option[0])[2:]] = ""
        else:
            joined = SEPARATOR.join(value) if isinstance(value, list) else value
            options[row.long_option] = joined
    return options


def _is_on(row: JobField, value: bool) -> bool:
    """Whether a switch was turned on; one that only has an `off` option was turned off."""
    return value and bool(row.option)
