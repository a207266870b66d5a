"""`flyball bench models`: what the optimiser gains on the zoo, each figure with its bar."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench models --json > models.json
  flyball bench models --only "inference resnet50" --only "training resnet50"
  flyball bench models --one-thread
  flyball bench models --full --resume models.jsonl
\b
Parts: gemm, inference MODEL, training MODEL, memory MODEL, layer NAME. Each runs
in a process of its own. See docs/concept/models.md.
"""


def models(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part; may be repeated.")
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="All back ends, inductor too, and one thread; takes hours."),
    ] = False,
    one_thread: Annotated[
        bool, typer.Option("--one-thread", help="Only inference, on one thread; no bars.")
    ] = False,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure what optimised models gain: inference, training, memory, single layers."""
    from flyball.bench.models import figures, parts, rows_of, run

    with kept_results(resume, "models") as runs:
        table = parts(full, one_thread)
        with progress("measuring", len(only or table), as_json) as advance:
            outcome = run(table, note, only or (), runs, full, advance)
        rows = rows_of(outcome.results)
        if as_json:
            print_json({"rows": rows, "not_run": outcome.missing()})
        else:
            title = "Optimised models against eager float32"
            print_figures(title, figures(rows), ("choice or published",))
        end(outcome)
