"""`flyball bench shares`: cost of the policies that solve linear programmes."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench shares
  flyball bench shares --policy max-min-het --json
"""
Policies = Annotated[
    str,
    typer.Option(
        "--policy", help="Only these, separated by commas. [default: all that set shares]"
    ),
]


def shares(policies: Policies = "", as_json: AsJson = False) -> None:
    """Measure the time of a decision with 1,000 and 10,000 active jobs, and of a replayed week."""
    from flyball.bench.shares import figures, run, share_policies, steps

    chosen = share_policies(policies)
    with progress("measuring", steps(chosen), as_json) as advance:
        result = run(chosen, note, advance)
    if as_json:
        print_json(result)
        return
    title = "One decision (targets and round), and a week on 1,000 nodes of four types"
    print_figures(title, figures(result), ("policy",))
