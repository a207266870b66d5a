"""`flyball bench parts`: CPU time of single parts on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

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
    """Measure the CPU time of parts, from the start of `flyball` to a round of caps."""
    from flyball.bench.figure import figure_of
    from flyball.bench.parts import PARTS, run

    with progress("measuring", len(only or PARTS), as_json) as advance:
        rows = run(note, only or (), done=advance)
    if as_json:
        print_json({"rows": rows})
        return
    print_figures("The quickest of five runs each", [figure_of(row, "part") for row in rows])
