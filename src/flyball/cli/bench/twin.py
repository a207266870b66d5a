"""`flyball bench twin`: events per second of the twin on this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench twin
  flyball bench twin --only stepping
  flyball bench twin --json > twin.json
"""


class Part(StrEnum):
    """Parts that can be measured alone."""

    STEPPING = "stepping"


def twin(
    only: Annotated[
        Part | None, typer.Option("--only", help="Only this part: steps of learners and forks.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the twin's events per CPU-second on saturated clusters, steps, clones and forks."""
    from flyball.bench import stepping
    from flyball.bench import twin as whole

    part = whole if only is None else stepping
    with progress("measuring", part.STEPS, as_json) as advance:
        result = part.run(note, advance)
    if as_json:
        print_json(result)
        return
    print_figures("The twin on saturated clusters", part.figures(result))
