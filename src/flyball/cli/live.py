"""Options of commands on a live system, and the connection to its server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.formats import Job
from flyball.cli.output import print_json
from flyball.core.errors import BadInput, Unavailable
from flyball.core.jobs import JobState

if TYPE_CHECKING:
    from flyball.sdk.client import Client

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="State folder of the server. [default: FLYBALL_STATE, else ~/.local/state/flyball]",
    ),
]
CORE = "CPU1"
"""Device type of a single core."""
JOB_ID = re.compile(r"[1-9][0-9]{0,14}(?:_[0-9]{1,7})?")
"""Number of a job as users write it: `12`, or `12_3` for a task of an array."""
JobId = Annotated[
    str, typer.Argument(metavar="ID", help="Job number: 12, or 12_3 for an array task.")
]


@contextmanager
def connected(state: Path | None) -> Iterator[Client]:
    """Connect to the server of a state folder.

    Raises:
        Unavailable: no server runs.
        BadInput: the server refused the request.
    """
    from flyball.sdk.client import Client
    from flyball.sdk.errors import ApiError

    try:
        with Client(state) as client:
            yield client
    except ApiError as error:
        kind = BadInput if error.exit_code == 2 else Unavailable
        raise kind(error.detail, error.remedy) from error


def show_job(
    job: str,
    state: Path | None,
    as_json: bool,
    ask: Callable[[Client, str], Mapping[str, Any]],
    lines: Callable[[Job], Iterable[str]],
) -> None:
    """Query the server about one job, and print the answer as JSON or as lines."""
    number = job_id(job)
    with connected(state) as client:
        answer = ask(client, number)
        if not as_json and "label" not in answer:  # an older server leaves out which job it is
            answer = {**client.job(number), **answer}
    if as_json:
        print_json(answer)
        return
    for line in lines(answer):
        typer.echo(line)


def unit_of(nodes: Iterable[Mapping[str, Any]]) -> str:
    """Return the unit of these nodes: `core` or `GPU`, or `device` if there are both.

    On a machine with many cores, a device stands for several cores and is not called a core.
    """
    units = set()
    for node in nodes:
        of_cores = "core" if node["devices"] == node["cpus"] else "device"
        units.add(of_cores if node["device"] == CORE else "GPU")
    return units.pop() if len(units) == 1 else "device"


def job_id(text: str) -> str:
    """Return a job number if it is one.

    Raises:
        BadInput: it is not.
    """
    if not JOB_ID.fullmatch(text):
        raise BadInput(f"{text[:40]!r} is not a job number", "see flyball queue --all")
    return text


def states_of(text: str | None) -> list[str]:
    """Return the states of a list such as `PENDING,running` or Slurm's `PD,R`; empty = any.

    Raises:
        BadInput: unknown state.
    """
    chosen = []
    for word in (text or "").split(","):
        name = SHORT_STATES.get(word.strip().upper(), word.strip().upper())
        if name and name not in tuple(JobState):
            valid = ", ".join(JobState)
            raise BadInput(f"unknown state {word.strip()!r}", f"known: {valid}")
        if name:
            chosen.append(str(name))
    return chosen


SHORT_STATES = {
    "PD": "PENDING",
    "R": "RUNNING",
    "CG": "COMPLETING",
    "CD": "COMPLETED",
    "F": "FAILED",
    "CA": "CANCELLED",
    "TO": "TIMEOUT",
    "OOM": "OUT_OF_MEMORY",
    "NF": "NODE_FAIL",
    "BF": "BOOT_FAIL",
}
