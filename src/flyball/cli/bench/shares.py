"""`flyball bench shares`: what the policies that solve programmes cost."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table

EXAMPLES = """\b
Examples:
  flyball bench shares
  flyball bench shares --policy max-min-het --json
"""
Policies = Annotated[
    str, typer.Option("--policy", help="Only these, comma separated; all that set shares if none.")
]


def shares(policies: Policies = "", as_json: AsJson = False) -> None:
    """Time of a decision with 1,000 and 10,000 active jobs, and of a replayed week."""
    from flyball.bench.shares import run

    figures = run(policies, note)
    if as_json:
        print_json(figures)
        return
    print_table(
        "One decision: targets and round",
        ("policy", "active jobs", "decision (ms)", "of that targets (ms)"),
        [
            (
                each["policy"],
                f"{each['active']:,}",
                f"{each['decision_ms']:,.1f}",
                f"{each['targets_ms']:,.1f}",
            )
            for each in figures["decisions"]
        ],
    )
    print_table(
        "A week of 10,000 jobs on 1,000 nodes of four types",
        ("policy", "wall (s)", "decisions", "mean completion (h)", "utilisation", "preemptions"),
        [
            (
                each["policy"],
                f"{each['wall_s']:,.1f}",
                f"{each['decisions']:,}",
                f"{each['completion_h']:,.2f}",
                f"{each['utilisation']:.3f}",
                f"{each['preemptions']:,}",
            )
            for each in figures["weeks"]
        ],
    )
