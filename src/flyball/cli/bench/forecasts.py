"""`flyball bench forecasts`: what forecasts are worth, by paired runs with and without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress

if TYPE_CHECKING:
    from flyball.experiments.forecasts.rows import Row

EXAMPLES = """\b
Examples:
  flyball bench forecasts
  flyball bench forecasts --only load --seeds 2
  flyball bench forecasts --only load,services --json > forecasts.json
  flyball bench forecasts --resume forecasts.jsonl
\b
Parts: load, services, run-times. Every row compares runs of the same seeds; `true future` gives the
same rule the future as it came, an upper bound on what a better forecast could add.
"""

MAX_SEEDS = 100
HEADER = ("case", "with", "against", "metric", "without", "change (95 %)", "n", "verdict")


def forecasts(
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only these parts, separated by commas; may be repeated."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Number of seeds of each case. [default: by part]")
    ] = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure what forecasts of load, requests and run times are worth to rules that read them."""
    if seeds is not None:
        whole_number(seeds, "--seeds", 1, MAX_SEEDS)
    from flyball.bench.forecasts import PARTS, run

    names = [name.strip() for text in only or () for name in text.split(",") if name.strip()]
    with kept_results(resume, "forecasts") as runs:
        with progress("measuring", len(names or PARTS), as_json) as advance:
            outcome = run(note, names, seeds, runs, advance)
        if as_json:
            print_json({"rows": outcome.rows, "not_run": outcome.missing()})
        else:
            cells = [_cells(row) for row in outcome.rows]
            print_table("What forecasts are worth, paired by seed", HEADER, cells, 4)
        end(outcome)


def _cells(row: Row) -> tuple[str, ...]:
    unit = f" {row['unit']}" if row["unit"] else ""
    band = "" if row["n"] < 2 else f" ({row['low']:+.2f}..{row['high']:+.2f})"
    change = f"{row['value']:+.2f}{unit}{band}"
    head = (row["case"], row["arm"], row["against"], row["metric"])
    return (*head, f"{row['base']:.4g}", change, str(row["n"]), row["verdict"])
