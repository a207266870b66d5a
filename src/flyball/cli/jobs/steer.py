"""`flyball resize`, `cap` and `checkpoint`: orders about jobs that run."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from flyball.cli.jobs.tuning_words import unit_of_job
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.server.live_options import JobId, State, connected, count_text, job_id
from flyball.core.errors import BadInput

RESIZE_EXAMPLES = """\b
Examples:
  flyball submit --elastic 1-4 -c 2 -- python train.py
  flyball resize 12 1
  flyball resize 12 4 --json
\b
On cores at once, between two steps; on GPUs by a new start from the last checkpoint.
"""
CAP_EXAMPLES = """\b
Examples:
  flyball cap 12 50%
  flyball cap 12 0.8
  flyball cap 12 100%                      (no cap any more)
\b
Of cores it is a part of their time, of GPUs a power limit where the driver permits one.
"""
CHECKPOINT_EXAMPLES = """\b
Examples:
  flyball checkpoint 12
  flyball checkpoint 12_3 --json
\b
A job hears it through flyball.TorchCallback or flyball.elastic(); see docs/guide/elastic.md.
"""


def resize(
    job: JobId,
    devices: Annotated[
        int, typer.Argument(metavar="COUNT", help="Cores, or GPUs of a job that has GPUs.")
    ],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Let an elastic job go on with another number of cores or GPUs."""
    with connected(state) as client:
        found = client.resize(job_id(job), devices)
        unit = unit_of_job(client.job(job_id(job)))
    _say(found, as_json, f"job {job} goes on with {count_text(devices, unit)}")


def cap(
    job: JobId,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="50%, or 0.5; 100% = no cap.")],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Keep a job to a part of what its cores or GPUs could do."""
    part = share_of(share)
    with connected(state) as client:
        found = client.cap(job_id(job), part)
        unit = unit_of_job(client.job(job_id(job)))
    what = "has no cap" if part == 1.0 else f"is kept to {part:.0%} of its {unit}s"
    _say(found, as_json, f"job {job} {what}")


def checkpoint(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Have a running job save what it has, and go on."""
    with connected(state) as client:
        found = client.checkpoint(job_id(job))
    _say(found, as_json, f"job {job} was asked for a checkpoint")


def share_of(text: str) -> float:
    """A part: `50%` or `0.5`.

    Raises:
        BadInput: it is none.
    """
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(%?)", text.strip())
    value = float(found[1]) / (100 if found[2] else 1) if found else 0.0
    if not 0.05 <= value <= 1.0:
        raise BadInput(f"{text[:40]!r} is no share", "write 5% to 100%, or 0.05 to 1")
    return value


def _say(found: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        print_json(found)
    else:
        note(text)
