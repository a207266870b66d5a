"""`flyball cancel`: have jobs end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import typer

from flyball.cli.live_options import State, connected, count_text, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball cancel 12
  flyball cancel 12_3 14
  flyball cancel --name sweep
  flyball cancel --all
\b
The number of an array means all its tasks.
"""

AT_A_TIME = 16
"""Requests: each waits until it is durable, and those that wait together share one write."""


def cancel(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Jobs: 12, or 12_3 for a task.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every job that runs or waits.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", "-n", help="All with this name.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="All of this user's.")] = None,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Cancel jobs: those that wait at once, those that run with SIGTERM and, later, SIGKILL."""
    chosen = [job_id(each) for each in jobs or ()]
    if not chosen and not everything and name is None and user is None:
        raise BadInput("no job to cancel", "name its number, or use --name, --user or --all")
    if chosen and (everything or name is not None or user is not None):
        raise BadInput("jobs are named, and chosen by an option as well", "use one of the two")
    with connected(state) as client:
        if not chosen:
            # The tasks of an array share name and user: it goes as a whole, in one request.
            found = (
                str(job["array_id"] or job["id"])
                for job in client.queue()
                if (name is None or job["name"] == name) and (user is None or job["user"] == user)
            )
            chosen = list(dict.fromkeys(found))
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            ended = [each for ids in pool.map(client.cancel, chosen) for each in ids]
    cancelled = sorted(set(ended))
    if as_json:
        print_json({"cancelled": cancelled})
    elif cancelled:
        note(f"cancelled {count_text(len(cancelled), 'job')}: {', '.join(map(str, cancelled))}")
    else:
        note("nothing to cancel: no such job runs or waits")
