"""`flyball bench starts`: accuracy of forecast start times of live jobs on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball bench starts
  flyball bench starts --runs 3 --scale 0.5
  flyball bench starts --one-state --json
"""


def starts(
    runs: Annotated[int, typer.Option(help="Runs of `flyball demo live`.")] = 10,
    scale: Annotated[float, typer.Option(help="Length of its jobs; 1 = 3 to 15 s each.")] = 1.0,
    one_state: Annotated[
        bool,
        typer.Option("--one-state", help="Keep one state folder, so that later runs have history."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the live demo and compare start-time forecasts with what happened."""
    whole_number(runs, "--runs", 1, 1000)
    if not 0.01 <= scale <= 100:
        raise BadInput(f"--scale {scale:g} is out of range", "use 0.01 to 100")
    from flyball.bench.figure import figure_of
    from flyball.bench.starts import run

    figures = run(note, runs, scale, fresh=not one_state)
    if as_json:
        print_json(figures)
        return
    where = "one state folder" if one_state else "an empty state folder each"
    title = (
        f"{figures['jobs']} jobs that waited in {runs} runs on {where}, "
        f"median wait {figures['median_wait_s']:.0f} s"
    )
    print_figures(title, [figure_of(row, "name") for row in figures["bars"]])
    note(
        f"p50 was kept by {figures['p50_kept_percent']:.0f} % of the jobs, the start by "
        f"reservations alone by {figures['reserved_kept_percent']:.0f} %"
    )
