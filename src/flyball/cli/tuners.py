"""`flyball tuners`: who may change what a policy decides."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table

EXAMPLES = """\b
Examples:
  flyball tuners
  flyball tuners elastic
  flyball tuners --json
"""


def tuners(
    name: Annotated[str | None, typer.Argument(help="One of them, with its settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the tuners, for `replay --tune`; the settings of one, for `--tune-set`."""
    from flyball.tune.registry import loadable_names

    found = [described(each) for each in ([name] if name else loadable_names())]
    if as_json:
        print_json({"tuners": found})
    elif name:
        print_one(found[0])
    else:
        cells = [(each["tuner"], each["summary"], _short(each)) for each in found]
        print_table("Tuners, in the order in which they act", ("tuner", "what it does", "settings"),
                    cells, 3)  # fmt: skip


def described(name: str) -> dict[str, Any]:
    """A tuner for machines."""
    from flyball.tune.registry import location, needs, settings, summary

    return {
        "tuner": name,
        "summary": summary(name),
        "settings": settings(name),
        "meanings": _meanings(name),
        "needs": needs(name),
        "where": location(name),
    }


def print_one(tuner: dict[str, Any]) -> None:
    """A tuner's settings with what they mean."""
    typer.echo(f"{tuner['tuner']}: {tuner['summary']}\n")
    cells = [
        (f"{tuner['tuner']}.{key}", f"{value:g}" if value is not True else "true", meaning)
        for key, value in tuner["settings"].items()
        for meaning in [tuner["meanings"].get(key, "")]
    ]
    print_table("Settings, for --tune-set", ("setting", "default", "meaning"), cells, 3)
    if tuner["needs"]:
        typer.echo(f"It must be told {', '.join(tuner['needs'])}, so `replay` cannot use it.")


def _short(tuner: dict[str, Any]) -> str:
    if tuner["needs"]:
        return "of a service; not for `replay`"
    return ", ".join(f"{key}={value}" for key, value in tuner["settings"].items())


def _meanings(name: str) -> dict[str, str]:
    """What the settings mean, from the `Attributes` of the class's docstring."""
    import inspect

    from flyball.tune.registry import get_tuner

    text = inspect.getdoc(get_tuner(name)) or ""
    found: dict[str, str] = {}
    key = ""
    for line in text.partition("Attributes:")[2].splitlines():
        head, colon, rest = line.strip().partition(": ")
        if colon and head.isidentifier() and len(line) - len(line.lstrip()) <= 4:
            key = head
            found[key] = rest
        elif key and line.strip():
            found[key] += f" {line.strip()}"
    return found
