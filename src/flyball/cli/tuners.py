"""`flyball tuners`: the tuners, which adjust what a policy decides."""

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
    name: Annotated[
        str | None, typer.Argument(help="Show only this tuner, with its settings.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tuners for `replay --tune`, or one tuner's settings for `--tune-set`."""
    from flyball.tune.registry import loadable_names

    rows = [describe(tuner_name) for tuner_name in ([name] if name else loadable_names())]
    if as_json:
        print_json({"tuners": rows})
    elif name:
        print_one(rows[0])
    else:
        cells = [(tuner["tuner"], tuner["summary"], _short(tuner)) for tuner in rows]
        print_table("Tuners, in the order in which they act", ("tuner", "what it does", "settings"),
                    cells, 3)  # fmt: skip


def describe(name: str) -> dict[str, Any]:
    """Return a tuner's summary and settings, for JSON."""
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
    """Print a tuner's settings and their meanings."""
    typer.echo(f"{tuner['tuner']}: {tuner['summary']}\n")
    cells = [
        (f"{tuner['tuner']}.{key}", f"{value:g}" if value is not True else "true", meaning)
        for key, value in tuner["settings"].items()
        for meaning in [tuner["meanings"].get(key, "")]
    ]
    print_table("Settings, for --tune-set", ("setting", "default", "meaning"), cells, 3)
    if tuner["needs"]:
        typer.echo(f"It needs {', '.join(tuner['needs'])}, so `replay` cannot use it.")


def _short(tuner: dict[str, Any]) -> str:
    if tuner["needs"]:
        return "for services; not for `replay`"
    return ", ".join(f"{key}={value}" for key, value in tuner["settings"].items())


def _meanings(name: str) -> dict[str, str]:
    """Return the meanings of the settings, from `Attributes` in the class's docstring."""
    import inspect

    from flyball.tune.registry import get_tuner

    text = inspect.getdoc(get_tuner(name)) or ""
    meanings: dict[str, str] = {}
    key = ""
    for line in text.partition("Attributes:")[2].splitlines():
        head, colon, rest = line.strip().partition(": ")
        if colon and head.isidentifier() and len(line) - len(line.lstrip()) <= 4:
            key = head
            meanings[key] = rest
        elif key and line.strip():
            meanings[key] += f" {line.strip()}"
    return meanings
