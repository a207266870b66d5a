"""`flyball drain` keeps jobs off a node, `flyball resume` lets it take jobs again."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json

DRAIN_EXAMPLES = """\b
Examples:
  flyball drain n7 --reason "a fan is loud"
  flyball drain n7 n8 --json
\b
Jobs that run there run on. flyball nodes shows the reason; flyball resume ends it.
"""
RESUME_EXAMPLES = """\b
Examples:
  flyball resume n7
\b
A node that is down takes jobs when it is up again.
"""

Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names: see `flyball nodes`.")]


def drain(
    nodes: Nodes,
    reason: Annotated[str, typer.Option(help="Why; shown by `flyball nodes`.")] = "",
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Start no more jobs on nodes until they are resumed; those that run there run on."""
    with connected(state) as client:
        for node in nodes:
            client.drain(node, reason)
    if as_json:
        print_json({"drained": nodes})
    else:
        note(f"drained: {', '.join(nodes)}; flyball resume {nodes[0]} lets it take jobs again")


def resume(nodes: Nodes, as_json: AsJson = False, state: State = None) -> None:
    """Let drained nodes take jobs again."""
    with connected(state) as client:
        for node in nodes:
            client.resume(node)
    if as_json:
        print_json({"resumed": nodes})
    else:
        note(f"resumed: {', '.join(nodes)}")
