"""`flyball top`: shows the cluster, until interrupted or once."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import print_json
from flyball.cli.top.frame import Snapshot, frame, recent_rates, take_snapshot
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.sdk.client import Client

EXAMPLES = """\b
Examples:
  flyball top                 (arrows choose a job, Enter shows it, c cancels, / filters, q ends)
  flyball top --every 5
  flyball top --once          (one frame as plain text)
  flyball top --once --json
"""
RATES_EVERY_S = 5.0
"""How often rates and start times, which cost more, are refreshed."""
LINES_OFF_SCREEN = 24
"""Lines of a frame that does not go to a terminal."""


def top(
    once: Annotated[bool, typer.Option("--once", help="Print one frame and exit.")] = False,
    every_s: Annotated[float, typer.Option("--every", help="Seconds between refreshes.")] = 1.0,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Show devices by job, the queue with reasons and start times, and the log of each job."""
    if not 0.1 <= every_s <= 3600:
        raise BadInput(f"--every {every_s:g} is out of range", "use 0.1 to 3600 seconds")
    if as_json and not once:
        raise BadInput("--json needs --once", "use flyball top --once --json")
    with connected(state) as client:
        if as_json:
            snapshot = take_snapshot(client, recent_rates(client))
            print_json({**snapshot._asdict(), "rates": snapshot.rates._asdict()})
        elif once:
            _print_frame(take_snapshot(client, recent_rates(client)))
        elif _is_terminal():
            from flyball.cli.top.app import TopApp

            TopApp(client, every_s).run()
        else:
            _print_frames(client, every_s)


def _is_terminal() -> bool:
    """Return whether an application can be drawn: on a terminal that can move its cursor."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _print_frame(snapshot: Snapshot) -> None:
    from rich.console import Console

    console = Console(highlight=False, emoji=False, soft_wrap=True)
    height = shutil.get_terminal_size().lines - 1 if sys.stdout.isatty() else LINES_OFF_SCREEN
    for line in frame(snapshot, height):
        line.rstrip()
        console.print(line)


def _print_frames(client: Client, every_s: float) -> None:
    """Print frame after frame, one below the other, until interrupted."""
    try:
        for snapshot in _moments(client, every_s):
            _print_frame(snapshot)
            typer.echo()
    except KeyboardInterrupt:
        return


def _moments(client: Client, every_s: float) -> Iterator[Snapshot]:
    """Yield snapshots forever; rates are refreshed less often."""
    rates, counted = recent_rates(client), time.monotonic()
    while True:
        if time.monotonic() - counted >= RATES_EVERY_S:
            rates, counted = recent_rates(client), time.monotonic()
        yield take_snapshot(client, rates)
        time.sleep(every_s)
