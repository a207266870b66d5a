"""`flyball bench learning`: speed of the environments, and of serving a policy."""

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
  flyball bench learning
  flyball bench learning --only pick --only serve
  flyball bench learning --json > learning.json
"""


class Part(StrEnum):
    """Parts that can be measured alone."""

    PICK = "pick"
    GOVERN = "govern"
    SERVE = "serve"


def learning(
    only: Annotated[
        list[Part] | None,
        typer.Option("--only", help="Only this part; may be repeated: pick, govern, serve."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure steps of Pick-v0 and Govern-v0 per CPU-second, and the time to serve a policy."""
    from flyball.bench import learning as parts

    chosen = tuple(part.value for part in (only or list(Part)))
    with progress("measuring", len(chosen), as_json) as advance:
        result = parts.run(note, chosen, advance)
    if as_json:
        print_json(result)
        return
    print_figures("Learning and serving", parts.figures(result))
