"""What the commands of the live system share: options, the connection, words for times."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.output import print_json
from flyball.core.errors import BadInput, Unavailable
from flyball.core.jobs import JobState
from flyball.core.units import MIB_PER_GIB, duration_text

if TYPE_CHECKING:
    from flyball.sdk.client import Client

Job = Mapping[str, Any]
"""A job as the server shows it."""

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="State folder of the server. [default: FLYBALL_STATE, else ~/.local/state/flyball]",
    ),
]
CORE = "CPU1"
"""The device type of which one is a core."""
JOB_ID = re.compile(r"[1-9][0-9]{0,14}(?:_[0-9]{1,7})?")
"""As people write a job: `12`, or `12_3` for a task of an array."""
JobId = Annotated[str, typer.Argument(metavar="ID", help="Job: 12, or 12_3 for a task.")]


@contextmanager
def connected(state: Path | None) -> Iterator[Client]:
    """The server of a state folder, for a while.

    Raises:
        FlyballError: no server runs (75), or it refused what was asked (2).
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
    lines: Callable[[Mapping[str, Any], Job], Iterable[str]],
) -> None:
    """Ask the server something about one job, and print it as JSON or as lines."""
    number = job_id(job)
    with connected(state) as client:
        answer = ask(client, number)
        if as_json:
            print_json(answer)
            return
        found = client.job(number)
    for line in lines(answer, found):
        typer.echo(line)


def unit_of(nodes: Iterable[Mapping[str, Any]]) -> str:
    """What the devices of these nodes are: `core` or `GPU`, or `device` where there are both.

    A machine of many cores has devices of several cores each: these are not called cores.
    """
    units = set()
    for node in nodes:
        of_cores = "core" if node["devices"] == node["cpus"] else "device"
        units.add(of_cores if node["device"] == CORE else "GPU")
    return units.pop() if len(units) == 1 else "device"


def job_id(text: str) -> str:
    """The number of a job as the server takes it.

    Raises:
        BadInput: it is none.
    """
    if not JOB_ID.fullmatch(text):
        raise BadInput(f"{text[:40]!r} is not the number of a job", "see flyball queue --all")
    return text


def states_of(text: str | None) -> list[str]:
    """States of a list such as `PENDING,running` or Slurm's `PD,R`; empty = any.

    Raises:
        BadInput: no such state.
    """
    found = []
    for word in (text or "").split(","):
        name = SHORT_STATES.get(word.strip().upper(), word.strip().upper())
        if name and name not in tuple(JobState):
            known = ", ".join(JobState)
            raise BadInput(f"unknown state {word.strip()!r}", f"known: {known}")
        if name:
            found.append(str(name))
    return found


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


# Words -----------------------------------------------------------------------------


def clean(value: object) -> str:
    """One printable line: a job's own words must not steer the terminal."""
    text = " ".join(str(value).split())
    return "".join(each if each.isprintable() else "?" for each in text)


def clock_text(seconds: float | None) -> str:
    """A span as Slurm writes it: `5:03`, `2:05:03`, `1-02:05:03`."""
    if seconds is None:
        return "-"
    total = max(0, int(seconds))
    days, rest = divmod(total, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, last = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{hours}:{minutes:02}:{last:02}" if hours else f"{minutes}:{last:02}"


def moment_text(seconds: float | None) -> str:
    """An instant in local time."""
    if seconds is None:
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def size_text(mib: float | None) -> str:
    """A size for people; nothing where none is stated."""
    if not mib:
        return "-"
    return f"{mib / MIB_PER_GIB:.1f}G" if mib >= MIB_PER_GIB else f"{mib:.0f}M"


def soon_text(seconds: float) -> str:
    """`now` if nothing is in the way, or `in 3.5 min`."""
    if not seconds:
        return "now"
    return "in less than 1 s" if seconds < 1 else f"in {duration_text(seconds)}"


def start_text(found: Mapping[str, Any], where: str = "") -> str:
    """When something starts and how that is known: `in 40 s, 9 times out of 10 within ...`."""
    p90_s = found.get("p90_s") or 0.0
    within = f", 9 times out of 10 within {duration_text(p90_s)}" if p90_s >= 1 else ""
    method = f" ({clean(found['method'])})" if found.get("method") else ""
    return f"{soon_text(found['p50_s'])}{where}{within}{method}"


def span_s(job: Job, now: float) -> float | None:
    """How long it has run, or waits."""
    begin = job["start_time"] if job["start_time"] is not None else job["submit_time"]
    return None if begin is None else max(0.0, (job["end_time"] or now) - begin)


def count_text(count: int, what: str) -> str:
    """`1 job`, `3 jobs`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def heading(job: Job) -> str:
    """A job in a few words: `12 train: RUNNING`."""
    return f"{job['label']} {clean(job['name'])}: {job['state']}"


def signal_name(number: int) -> str:
    """`SIGKILL`, or `signal 40` for one without a name."""
    names = {int(each): each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def ending_text(job: Job) -> str:
    """How the job's process ended: `exit code 3`, or `SIGKILL`; empty if that is not known."""
    if number := job.get("signal"):
        return signal_name(int(number))
    return "" if job["exit_code"] is None else f"exit code {job['exit_code']}"


def counts_by_state(jobs: Iterable[Job]) -> dict[str, int]:
    """How many are in each state, in the order of a job's life."""
    found = [job["state"] for job in jobs]
    return {str(each): found.count(each) for each in JobState if each in found}
