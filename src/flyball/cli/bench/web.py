"""`flyball bench web`: what the dashboard costs, and how fast it shows a long queue."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball bench web
  flyball bench web --span-s 60 --json
  flyball bench web --only gantt           (the chart of 10,000 bars)
  flyball bench web --only soak --soak-s 3600
\b
Needs Debian's chromium and playwright: make servers, and the tools of make test.
"""


def web(
    span_s: Annotated[float, typer.Option(help="Length of each measurement of CPU time.")] = 30.0,
    soak_s: Annotated[float, typer.Option(help="Length of the soak; 0 = none.")] = 0.0,
    only: Annotated[
        list[str] | None, typer.Option(help="viewers, gantt or soak alone; repeatable.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the dashboard: first paint of a long queue, cost of viewers, memory."""
    if not 1 <= span_s <= 3600 or not 0 <= soak_s <= 86_400:
        raise BadInput("a length is out of range", "use 1 to 3600 s, and a soak up to a day")
    from flyball.bench.web.run import PARTS, Settings, run

    if unknown := set(only or ()) - {*PARTS, "soak"}:
        raise BadInput(f"no part {sorted(unknown)[0]!r}", f"use {', '.join(PARTS)} or soak")
    parts = PARTS if not only else tuple(only)
    figures = run(note, Settings(span_s, soak_s, parts=parts))
    if as_json:
        print_json({"figures": [asdict(figure) | {"holds": figure.holds} for figure in figures]})
        return
    print_figures("the dashboard on 200 virtual nodes with 1,600 devices", figures)
