"""`flyball hold` keeps jobs from starting, `release` lets them start, `priority` moves them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from flyball.cli.formats import Job, clean
from flyball.cli.live import State, connected, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.units import duration_text
from flyball.sdk.submitter import user_name

HOLD_EXAMPLES = """\b
Examples:
  flyball hold 12
  flyball hold 12_3 14
  flyball submit --hold -- python train.py    (held from the start)
\b
The number of an array means all its waiting tasks. flyball release lets them start.
"""
RELEASE_EXAMPLES = """\b
Examples:
  flyball release 12
  flyball release 12_3 14 --json
\b
A job that was submitted with --begin still waits for its time.
"""

PRIORITY_EXAMPLES = """\b
Examples:
  flyball priority 12 5
  flyball priority 12_3 14 -- -1           (negative: after all others)
\b
Higher goes first; a job that states none has 0. The number of an array means all its tasks.
"""

Jobs = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Job numbers: 12, or 12_3 for an array task.")
]


def hold(jobs: Jobs, as_json: AsJson = False, state: State = None) -> None:
    """Keep waiting jobs from starting until they are released."""
    numbers = [job_id(job) for job in jobs]
    with connected(state) as client:
        ids = [held_id for number in numbers for held_id in client.hold(number, user_name())]
    if as_json:
        print_json({"ids": ids})
    else:
        note(f"held: {', '.join(map(str, ids))}; flyball release {numbers[0]} lets it start")


def release(jobs: Jobs, as_json: AsJson = False, state: State = None) -> None:
    """Let held jobs start as soon as they can."""
    numbers = [job_id(job) for job in jobs]
    with connected(state) as client:
        done = {number: client.release(number) for number in numbers}
    ids = [released_id for released in done.values() for released_id in released]
    if as_json:
        print_json({"ids": ids})
        return
    if ids:
        note(f"released: {', '.join(map(str, ids))}")
    for number, released in done.items():
        if not released:
            note(f"{number} was not held")


def priority(
    jobs: Jobs,
    number: Annotated[float, typer.Argument(metavar="PRIORITY", help="Higher goes first.")],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Give jobs another priority; higher goes first."""
    numbers = [job_id(job) for job in jobs]
    with connected(state) as client:
        ids = [changed for job in numbers for changed in client.priority(job, number)]
    if as_json:
        print_json({"ids": ids, "priority": number})
    else:
        note(f"priority {number:g}: {', '.join(map(str, ids))}")


def held_text(job: Job, now: float) -> str:
    """Return why a job may not start yet: `held by you; flyball release 7`; empty if it may."""
    held = job.get("held")
    if not held:
        return ""
    if held["by"] is not None:
        by = "you" if held["by"] in ("", user_name()) else clean(held["by"])
        return f"held by {by}; flyball release {job['label']}"
    deferred = held.get("deferred")
    if deferred and held["begin_time"] is None:
        until, latest = (_clock_text(deferred[name], now) for name in ("until", "latest"))
        return f"deferred until about {until}, {latest} at the latest"
    return (
        f"begins at {_clock_text(held['begin_time'], now)}, in "
        f"{duration_text(max(0.0, held['begin_time'] - now))}"
    )


def _clock_text(at: float, now: float) -> str:
    """Return a time of day, with the date if it is another day."""
    begins = time.localtime(at)
    same_day = time.strftime("%F", begins) == time.strftime("%F", time.localtime(now))
    return time.strftime("%H:%M" if same_day else "%Y-%m-%d %H:%M", begins)
