"""`flyball bench`: how fast this is, here."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.output import note, print_json, print_table

app = typer.Typer(
    help="Measure this machine and this code.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  flyball bench twin
  flyball bench twin --json > twin.json
"""
)
def twin(
    as_json: Annotated[bool, typer.Option("--json", help="JSON on stdout, nothing else.")] = False,
) -> None:
    """Events per CPU-second of the twin on saturated clusters, and what a clone costs."""
    from flyball.bench.twin import run

    figures = run(note)
    if as_json:
        print_json(figures)
        return
    cases = [
        (
            each["name"],
            f"{each['nodes']:,}",
            f"{each['pending_mean']:,.0f}",
            f"{each['events']:,}",
            f"{each['events_per_s']:,.0f}",
        )
        for each in figures["cases"]
    ]
    header = ("case", "nodes", "mean pending", "events", "events per CPU-second")
    print_table("The twin on saturated clusters", header, cases)
    rest = [(name, _shown(value)) for name, value in figures.items() if name != "cases"]
    print_table("", ("figure", "value"), rest)


def _shown(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)
