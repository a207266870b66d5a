"""`flyball open`: opens the dashboard in a browser by a link that works once."""

from __future__ import annotations

import os
import webbrowser
from typing import Annotated

import typer

from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json

EXAMPLES = """\b
Examples:
  flyball open
  flyball open --print                     (only print the link)
  flyball open --read-only --print         (for a wall screen: it changes nothing, for 90 days)
  flyball open --state /srv/flyball
\b
The link works once, in one browser, within 15 minutes. `flyball token rotate` ends all sessions.
"""

WITHOUT_DISPLAY = "no display here; open the link in a browser"


def open_dashboard(
    read_only: Annotated[
        bool, typer.Option("--read-only", help="The browser may look and change nothing.")
    ] = False,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the link and open nothing.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Open the dashboard in a browser, by a link that works once."""
    with connected(state) as client:
        link = client.link(read_only)
    if as_json:
        print_json(link)
        return
    typer.echo(link["url"])
    if only_print:
        return
    if not has_display():
        note(WITHOUT_DISPLAY)
    elif not webbrowser.open(link["url"]):
        note("no browser could be started; open the link in one")


def has_display() -> bool:
    """Return whether a browser that is started here would be seen by someone."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
