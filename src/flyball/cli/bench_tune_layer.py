"""`flyball bench tune`: what tuning is worth."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table

EXAMPLES = """\b
Examples:
  flyball bench tune --only caps
  flyball bench tune --only mixed --only speed --json > tune.json
  flyball bench tune
\b
Parts: mixed, sharing, caps, replicas, pathways, speed, live. See docs/guide/tuning.md.
"""


def tune(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What elastic sizes, sharing, caps, sleep and replicas are worth: gains with their bars."""
    from flyball.bench.tune_layer import run

    rows = run(note, only or ())
    if as_json:
        print_json({"rows": rows})
        return
    header = ("case", "load", "baseline", "metric", "value", "low", "high", "bar", "holds")
    print_table("What tuning is worth (changes in percent)", header, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    from flyball.bench.tune_layer import holds

    shown = {None: "", True: "yes", False: "NO"}[holds(row)]
    numbers = [row[name] for name in ("value", "low", "high", "bar")]
    load = "" if row["load"] is None else f"{row['load']:g}"
    texts = ["" if each is None else f"{each:,.4g}" for each in numbers]
    return row["case"], load, row["baseline"] or "", row["metric"], *texts, shown
