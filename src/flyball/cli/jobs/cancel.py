"""`flyball cancel`: have jobs end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flyball.cli.jobs.queue import ranges_text
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.server.live_options import State, clean, connected, count_text, job_id
from flyball.core.errors import BadInput
from flyball.sdk.errors import ApiError

if TYPE_CHECKING:
    from flyball.sdk.client import Client

EXAMPLES = """\b
Examples:
  flyball cancel 12
  flyball cancel 12_3 14
  flyball cancel --name sweep
  flyball cancel --all
\b
The number of an array means all its tasks. Each job is told, whatever becomes of the others;
the exit code is 2 if there is one that does not exist.
"""

SHOWN = 20
"""Ranges of numbers that are named; --json has all."""
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
        if chosen:
            done = cancel_each(client, list(dict.fromkeys(chosen)))
        else:
            done = Done(sorted(client.cancel_all(user, name)), [], {})
    if as_json:
        print_json(done.as_dict())
    else:
        for line in lines(done):
            note(line)
    if done.failed:
        raise typer.Exit(max(error.exit_code for error in done.failed.values()))


class Done(NamedTuple):
    """What became of a wish that jobs end.

    Attributes:
        cancelled: the jobs that were told to.
        ended: those asked for that had ended already.
        failed: those asked for that could not be told, and why.
    """

    cancelled: list[int]
    ended: list[str]
    failed: dict[str, ApiError]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        failed = [{"job": job, "error": str(error)} for job, error in self.failed.items()]
        return {**self._asdict(), "failed": failed}


def cancel_each(client: Client, jobs: Sequence[str]) -> Done:
    """Cancel jobs by their numbers; one that is not there keeps no other from ending."""

    def one(job: str) -> list[int] | ApiError:
        try:
            return client.cancel(job)
        except ApiError as error:
            return error

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        answers = dict(zip(jobs, pool.map(one, jobs), strict=True))
    told = {job: ids for job, ids in answers.items() if not isinstance(ids, ApiError)}
    failed = {job: error for job, error in answers.items() if isinstance(error, ApiError)}
    cancelled = sorted({each for ids in told.values() for each in ids})
    return Done(cancelled, [job for job, ids in told.items() if not ids], failed)


def lines(done: Done) -> Iterator[str]:
    """What is said of it."""
    if done.cancelled:
        ranges = ranges_text(done.cancelled).split(",")
        rest = ",..." if len(ranges) > SHOWN else ""
        count = count_text(len(done.cancelled), "job")
        yield f"cancelled {count}: {','.join(ranges[:SHOWN])}{rest}"
    for job in done.ended:
        yield f"{job} had ended already"
    for job, error in done.failed.items():
        yield f"{job} was not cancelled: {clean(error)}"
    if not any(done):
        yield "nothing to cancel: no such job runs or waits"
