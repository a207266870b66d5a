"""`flyball cancel`: cancels jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flyball.cli.formats import clean, count_text
from flyball.cli.jobs.queue import ranges_text
from flyball.cli.live import State, connected, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
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
The number of an array means all its tasks. Each job is cancelled independently of the others;
the exit code is 2 if one of them does not exist.
"""

SHOWN = 20
"""Maximum number of ranges of job numbers printed; --json has all."""
AT_A_TIME = 16
"""Number of concurrent requests. Each waits until it is durable; concurrent ones share a write."""


def cancel(
    jobs: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Jobs: 12, or 12_3 for a task.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All running and waiting jobs.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", "-n", help="All jobs with this name.")
    ] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="All jobs of this user.")] = None,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Cancel jobs: waiting ones at once, running ones with SIGTERM and, later, SIGKILL."""
    chosen = [job_id(job) for job in jobs or ()]
    if not chosen and not everything and name is None and user is None:
        raise BadInput("no job to cancel", "name its number, or use --name, --user or --all")
    if chosen and (everything or name is not None or user is not None):
        raise BadInput("both job numbers and an option select jobs", "use one of the two")
    with connected(state) as client:
        if chosen:
            done = cancel_each(client, list(dict.fromkeys(chosen)))
        else:
            done = Cancellation(sorted(client.cancel_all(user, name)), [], {})
    if as_json:
        print_json(done.as_dict())
    else:
        for line in lines(done):
            note(line)
    if done.failed:
        raise typer.Exit(max(error.exit_code for error in done.failed.values()))


class Cancellation(NamedTuple):
    """Holds the result of a request to cancel jobs.

    Attributes:
        cancelled: ids of the jobs that were cancelled.
        ended: requested jobs that had ended already.
        failed: requested jobs that could not be cancelled, and why.
    """

    cancelled: list[int]
    ended: list[str]
    failed: dict[str, ApiError]

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        failed = [{"job": job, "error": str(error)} for job, error in self.failed.items()]
        return {**self._asdict(), "failed": failed}


def cancel_each(client: Client, jobs: Sequence[str]) -> Cancellation:
    """Cancel jobs by number, each independently of the others."""

    def one(job: str) -> list[int] | ApiError:
        try:
            return client.cancel(job)
        except ApiError as error:
            return error

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        answers = dict(zip(jobs, pool.map(one, jobs), strict=True))
    accepted = {job: ids for job, ids in answers.items() if not isinstance(ids, ApiError)}
    failed = {job: error for job, error in answers.items() if isinstance(error, ApiError)}
    cancelled = sorted({job_id for ids in accepted.values() for job_id in ids})
    return Cancellation(cancelled, [job for job, ids in accepted.items() if not ids], failed)


def lines(done: Cancellation) -> Iterator[str]:
    """Yield the result in sentences."""
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
