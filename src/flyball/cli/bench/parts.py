"""`flyball bench parts`: what single parts take here."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table

EXAMPLES = """\b
Examples:
  flyball bench parts
  flyball bench parts --only start --only read
  flyball bench parts --json > parts.json
\b
Parts: start, read, generate, classify, batch, power, forecast.
"""


def parts(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """CPU time of single parts, from the start of `flyball` to a round of caps, with bars."""
    from flyball.bench.parts import run

    rows = run(note, only or ())
    if as_json:
        print_json({"rows": rows})
        return
    header = ("part", "value", "unit", "bar", "holds")
    print_table("The quickest of five runs each", header, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    holds = "yes" if row["holds"] else "NO"
    return row["part"], f"{row['value']:,.3g}", row["unit"], f"{row['bar']:g}", holds
