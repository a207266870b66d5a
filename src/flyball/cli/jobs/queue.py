"""`flyball queue`: lists jobs and their states."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.formats import (
    Job,
    clean,
    clock_text,
    counts_by_state,
    ending_text,
    size_text,
    span_s,
)
from flyball.cli.jobs.hold import held_text
from flyball.cli.live import State, connected, states_of
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
  flyball queue --account vision --long
  flyball queue --watch
  flyball queue --all --json
"""

COLUMNS = ("job", "name", "user", "state", "node or reason", "time", "cpus", "gpus", "memory")
ACCOUNT_AFTER = COLUMNS.index("user") + 1
"""Index of the column of accounts that --long adds."""
WATCH_S = 1.0
PAGE = 1000
"""Number of jobs per request, with --all."""
CLEAR = "\x1b[H\x1b[2J"
"""Escape sequence that clears a terminal."""


def queue(
    everything: Annotated[
        bool, typer.Option("--all", "-a", help="Include jobs that have ended.")
    ] = False,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="Only jobs of this user.")
    ] = None,
    account: Annotated[
        str | None, typer.Option("--account", "-A", help="Only jobs on this account.")
    ] = None,
    states: Annotated[
        str | None,
        typer.Option("--states", "-t", help="Only jobs in these states: PENDING,RUNNING."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="Only jobs with this name.")
    ] = None,
    limit: Annotated[
        int, typer.Option(help="At most N jobs, with --all the newest ones; 0 = no limit.")
    ] = 0,
    long: Annotated[
        bool, typer.Option("--long", "-l", help="Add a column with the account.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second until interrupted.")
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """List running and waiting jobs, or all jobs with --all."""
    whole_number(limit, "--limit", 0, 10_000_000)
    if state is not None and str(state).upper() in tuple(JobState):
        raise BadInput(f"--state {state} is not a state folder", f"use --states {state}")
    if watch and as_json:
        raise BadInput("--watch and --json do not go together", "use flyball queue --json")
    chosen = states_of(states)
    filters = {"user": user, "tenant": account, "name": name, "state": chosen}
    everything = everything or not all(job_state in ACTIVE for job_state in chosen)

    def show(client: Client) -> None:
        jobs = find(client, everything, filters, limit)
        if as_json:
            print_json(jobs)
        elif jobs:
            print_jobs(jobs, long or account is not None)
        else:
            typer.echo(nothing_text(client, everything, filters))

    with connected(state) as client:
        if watch:
            watch_jobs(lambda: show(client))
        else:
            show(client)


def find(client: Client, everything: bool, filters: Mapping[str, Any], limit: int) -> list[Job]:
    """Return the requested jobs: active ones, running ones first; or all, the oldest first."""
    if not everything:
        active: list[Job] = []
        active += client.queue(limit, **filters)
        return active
    active_filters = {key: value for key, value in filters.items() if value}
    jobs: list[Job] = []
    for job in client.jobs(**active_filters, limit=min(limit or PAGE, PAGE)):
        jobs.append(job)
        if len(jobs) == limit:
            break
    return jobs[::-1]


def print_jobs(jobs: Sequence[Job], long: bool = False) -> None:
    """Print the table, and a summary below it.

    Args:
        long: add a column of accounts.
    """
    groups = grouped(jobs)
    rows = [cells(group, time.time()) for group in groups]
    columns: tuple[str, ...] = COLUMNS
    if long:
        accounts = [clean(group[0]["tenant"]) or "-" for group in groups]
        columns = (*COLUMNS[:ACCOUNT_AFTER], "account", *COLUMNS[ACCOUNT_AFTER:])
        rows = [
            (*row[:ACCOUNT_AFTER], account, *row[ACCOUNT_AFTER:])
            for row, account in zip(rows, accounts, strict=True)
        ]
    print_table("", columns, rows, columns.index("time"))
    typer.echo(summary(jobs))


def nothing_text(client: Client, everything: bool, filters: Mapping[str, Any]) -> str:
    """Return a sentence that no job matches, with the number of other jobs if filters are set."""
    parts = [
        f" {word} {clean(value)}"
        for key, word in (("user", "of user"), ("tenant", "on account"), ("name", "named"))
        if (value := filters[key])
    ]
    parts += [f" in state {' or '.join(filters['state'])}"] if filters["state"] else []
    which = "".join(parts)
    nothing = f"There are no jobs{which}" if everything else f"No job{which} runs or waits"
    others = 0
    if which and everything:
        others = sum(1 for _ in islice(client.jobs(limit=PAGE), PAGE))
    elif which:
        others = client.queue_page(1)["total"]
    if not others:
        return f"{nothing}; flyball submit -- COMMAND submits one."
    count = f"{others:,}{' or more' if everything and others == PAGE else ''}"
    jobs = "other job is" if others == 1 else "other jobs are"
    return f"{nothing}; {count} {jobs} there: flyball queue{' --all' if everything else ''}"


def summary(jobs: Sequence[Job]) -> str:
    """Return `3 RUNNING, 2 PENDING; ...`."""
    counts = counts_by_state(jobs)
    counted = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    if waiting := next((job for job in jobs if job["state"] == JobState.PENDING), None):
        return f"{counted}; flyball why {waiting['label']} explains why {waiting['label']} waits."
    return f"{counted}."


def grouped(jobs: Sequence[Job]) -> list[list[Job]]:
    """Group neighbours that wait in the same array for the same reason into one line."""
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
    """Return `12`, `12_3`, or `12_[3-7,9]` for several tasks."""
    if len(group) == 1:
        return str(group[0]["label"])
    numbers = sorted(int(str(job["label"]).partition("_")[2]) for job in group)
    return f"{group[0]['array_id']}_[{ranges_text(numbers)}]"


def ranges_text(numbers: Iterable[int]) -> str:
    """Abbreviate ascending numbers: `3-7,9`."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, ends)) for ends in ranges)


def why_text(job: Job) -> str:
    """Return what happened to a job and why it waits: `requeued-lost, no-free-devices`."""
    ending = ending_text(job) if job["state"] == JobState.FAILED else ""
    waits = held_text(job, time.time()) or job.get("token")
    return ", ".join(clean(part) for part in (job["reason"], waits, ending) if part)


def cells(group: Sequence[Job], now: float) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
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


def watch_jobs(show: Callable[[], None]) -> None:
    """Show the queue every second until interrupted; on a terminal, in place."""
    try:
        while True:
            if sys.stdout.isatty():
                typer.echo(CLEAR, nl=False)
            show()
            time.sleep(WATCH_S)
    except KeyboardInterrupt:
        return
