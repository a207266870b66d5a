"""`flyball logs`: prints a job's output."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.formats import clean
from flyball.cli.live import JobId, State, connected, job_id
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball logs 12
  flyball logs 12 -f
  flyball logs 12_3 --tail 20
  flyball logs 12 --attempt 1
  flyball logs 12 --stderr             (of a job submitted with -e FILE)
"""


def logs(
    job: JobId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until it ends.")
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", help="Only the last N lines.")] = None,
    attempt: Annotated[int, typer.Option(help="Which attempt; 0 = the last one.")] = 0,
    stderr: Annotated[
        bool,
        typer.Option("--stderr", "-e", help="Print its error output, if it has a separate file."),
    ] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Print a job's output; with --stderr, its error file."""
    whole_number(attempt, "--attempt", 0, 1_000_000)
    if tail is not None:
        whole_number(tail, "--tail", 0, 1_000_000)
    if follow and as_json:
        raise BadInput("--follow and --json do not go together", "leave one out")
    number = job_id(job)
    with connected(state) as client:
        spec = client.job(number)["spec"]
        if not stderr and spec.get("stderr", "") not in ("", spec.get("stdout", "")):
            note(f"note: its error output is in {clean(spec['stderr'])}; --stderr shows it")
        chunks = client.logs(number, follow=follow, tail=tail, attempt=attempt, stderr=stderr)
        if as_json:
            text = b"".join(chunks).decode("utf-8", "replace")
            print_json({"id": client.job(number)["id"], "text": text})
            return
        for chunk in chunks:
            typer.echo(chunk, nl=False)
