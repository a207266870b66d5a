"""`flyball queue`: which jobs there are, and where they stand."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.live_options import (
    Job,
    State,
    clean,
    clock_text,
    connected,
    counts_by_state,
    ending_text,
    size_text,
    span_s,
    states_of,
)
from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table, whole_number
from flyball.core.errors import BadInput
from flyball.core.jobs import ACTIVE, JobState

if TYPE_CHECKING:
    from flyball.sdk.client import Client

EXAMPLES = """\b
Examples:
  flyball queue
  flyball queue --all --limit 20
  flyball queue -t PENDING,RUNNING --user ada
  flyball queue --watch
  flyball queue --all --json
"""

COLUMNS = ("job", "name", "user", "state", "node or reason", "time", "cpus", "gpus", "memory")
WATCH_S = 1.0
PAGE = 1000
"""Jobs that are asked for at a time, with --all."""
CLEAR = "\x1b[H\x1b[2J"
"""Empties a terminal."""


def queue(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Also jobs that have ended.")
    ] = False,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only this user's.")] = None,
    states: Annotated[
        str | None, typer.Option("--states", "-t", help="Only in these states: PENDING,RUNNING.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", "-n", help="Only with this name.")] = None,
    limit: Annotated[int, typer.Option(help="The newest N at most, with --all; 0 = no limit.")] = 0,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show it again and again.")] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """List jobs: those that run and wait, or all with --all."""
    whole_number(limit, "--limit", 0, 10_000_000)
    if state is not None and str(state).upper() in tuple(JobState):
        raise BadInput(f"--state {state} is not a state folder", f"use --states {state}")
    if watch and as_json:
        raise BadInput("--watch and --json do not go together", "use flyball queue --json")
    wanted = states_of(states)

    def found(client: Client) -> list[Job]:
        return find(client, everything, user, wanted, name, limit)

    with connected(state) as client:
        if watch:
            watch_jobs(lambda: found(client), everything)
        elif as_json:
            print_json(found(client))
        else:
            print_jobs(found(client), everything)


def find(
    client: Client,
    everything: bool,
    user: str | None,
    states: Sequence[str],
    name: str | None,
    limit: int,
) -> list[Job]:
    """The jobs asked for: active ones, what runs first, else all, the oldest first."""
    if not everything and all(each in ACTIVE for each in states):
        active: list[Job] = []
        active += client.queue(limit, user=user, name=name, state=list(states))
        return active
    filters = {"user": user, "name": name, "state": list(states)}
    given = {key: value for key, value in filters.items() if value}
    jobs: list[Job] = []
    for job in client.jobs(**given, limit=min(limit or PAGE, PAGE)):
        jobs.append(job)
        if len(jobs) == limit:
            break
    return jobs[::-1]


def print_jobs(jobs: Sequence[Job], everything: bool) -> None:
    """The table, and a line below it."""
    if not jobs:
        what = "There are no jobs" if everything else "No job runs or waits"
        typer.echo(f"{what}; flyball submit -- COMMAND makes one.")
        return
    rows = [cells(group, time.time()) for group in grouped(jobs)]
    print_table("", COLUMNS, rows, 5)
    typer.echo(summary(jobs))


def summary(jobs: Sequence[Job]) -> str:
    """`3 RUNNING, 2 PENDING; ...`."""
    counts = counts_by_state(jobs)
    said = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    if waiting := next((job for job in jobs if job["state"] == JobState.PENDING), None):
        return f"{said}; flyball why {waiting['label']} says why {waiting['label']} waits."
    return f"{said}."


def grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """Neighbours that wait in the same array for the same reason count as one line."""
    groups: list[list[Job]] = []
    last = None
    for job in jobs:
        waits = job["state"] == JobState.PENDING and job["array_id"]
        key = (job["array_id"], why_text(job), job["name"]) if waits else None
        if key is not None and key == last:
            groups[-1].append(job)
        else:
            groups.append([job])
        last = key
    return groups


def label_of(group: Sequence[Job]) -> str:
    """`12`, `12_3`, or `12_[3-7,9]` for several tasks."""
    if len(group) == 1:
        return str(group[0]["label"])
    numbers = sorted(int(str(job["label"]).partition("_")[2]) for job in group)
    return f"{group[0]['array_id']}_[{ranges_text(numbers)}]"


def ranges_text(numbers: Iterable[int]) -> str:
    """Rising numbers in short: `3-7,9`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, each)) for each in ranges)


def why_text(job: Job) -> str:
    """What happened to it, and why it waits: `requeued-lost, no-free-devices`."""
    ending = ending_text(job) if job["state"] == JobState.FAILED else ""
    return ", ".join(clean(each) for each in (job["reason"], job.get("token"), ending) if each)


def cells(group: Sequence[Job], now: float) -> tuple[str, ...]:
    """One line of the table."""
    job = group[0]
    reason = why_text(job)
    where = clean(job["node"] or "") or (f"({reason})" if reason else "")
    return (
        label_of(group),
        clean(job["name"])[:40],
        clean(job["user"]),
        str(job["state"]),
        where,
        clock_text(span_s(job, now)),
        str(job["cpus"]),
        str(job["gpus"] or "-"),
        size_text(job["memory_mib"]),
    )


def watch_jobs(look: Callable[[], list[Job]], everything: bool) -> None:
    """Show the queue each second until interrupted; on a terminal in place."""
    try:
        while True:
            jobs = look()
            if sys.stdout.isatty():
                typer.echo(CLEAR, nl=False)
            print_jobs(jobs, everything)
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return
