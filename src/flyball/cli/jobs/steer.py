"""`flyball resize`, `cap` and `checkpoint`: change running jobs."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from flyball.cli.formats import count_text
from flyball.cli.jobs.tuning_text import unit_of_job
from flyball.cli.live import JobId, State, connected, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.errors import BadInput

RESIZE_EXAMPLES = """\b
Examples:
  flyball submit --elastic 1-4 -c 2 -- python train.py
  flyball resize 12 1
  flyball resize 12 4 --json
\b
On cores it takes effect between two steps; on GPUs the job restarts from its last checkpoint.
"""
CAP_EXAMPLES = """\b
Examples:
  flyball cap 12 50%
  flyball cap 12 0.8
  flyball cap 12 100%                      (removes the cap)
\b
On cores it limits their time; on GPUs it limits power, where the driver permits that.
"""
CHECKPOINT_EXAMPLES = """\b
Examples:
  flyball checkpoint 12
  flyball checkpoint 12_3 --json
\b
A job receives the request by flyball.TorchCallback or flyball.elastic(); see docs/guide/elastic.md.
"""


def resize(
    job: JobId,
    devices: Annotated[
        int, typer.Argument(metavar="COUNT", help="Cores, or GPUs of a job that has GPUs.")
    ],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Change the number of cores or GPUs of a running elastic job."""
    with connected(state) as client:
        answer = client.resize(job_id(job), devices)
        unit = unit_of_job(client.job(job_id(job)))
    _report(answer, as_json, f"job {job} continues with {count_text(devices, unit)}")


def cap(
    job: JobId,
    share: Annotated[str, typer.Argument(metavar="SHARE", help="50%, or 0.5; 100% = no cap.")],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Limit a job to a fraction of its cores' time or its GPUs' power."""
    part = share_of(share)
    with connected(state) as client:
        answer = client.cap(job_id(job), part)
        unit = unit_of_job(client.job(job_id(job)))
    what = "has no cap" if part == 1.0 else f"is limited to {part:.0%} of its {unit}s"
    _report(answer, as_json, f"job {job} {what}")


def checkpoint(
    job: JobId,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Ask a running job to save a checkpoint and continue."""
    with connected(state) as client:
        answer = client.checkpoint(job_id(job))
    _report(answer, as_json, f"job {job} was asked for a checkpoint")


def share_of(text: str) -> float:
    """Return the fraction that `50%` or `0.5` means.

    Raises:
        BadInput: anything else, or out of range.
    """
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})(%?)", text.strip())
    value = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0.05 <= value <= 1.0:
        raise BadInput(f"{text[:40]!r} is not a share", "write 5% to 100%, or 0.05 to 1")
    return value


def _report(answer: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json:
        print_json(answer)
    else:
        note(text)
