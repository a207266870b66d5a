"""Shared by commands that run for minutes: the file of finished parts, and the final report."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.output import check_writable, note
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.experiments.part_runs import Outcome
    from flyball.experiments.run_file import RunFile

Resume = Annotated[
    Path | None,
    typer.Option(
        "--resume",
        metavar="FILE",
        help="Keep finished parts in this file; parts that are already there are not repeated.",
    ),
]


@contextlib.contextmanager
def kept_results(resume: Path | None, command: str) -> Iterator[RunFile]:
    """Open the file of finished parts: the one named, else a new one in the temporary folder.

    The new one is removed at the end unless something was interrupted or failed, so that a user
    who named no file loses nothing either.

    Raises:
        BadInput: the file cannot be written, or holds something else.
    """
    from flyball.experiments.run_file import RunFile, holds_records

    check_writable(resume)
    if resume is None:
        with tempfile.NamedTemporaryFile(
            prefix=f"flyball-{command}-", suffix=".jsonl", delete=False
        ) as file:
            path = Path(file.name)
    else:
        path = resume
        if path.exists() and path.stat().st_size and not holds_records(path):
            raise BadInput(f"{path} holds no finished parts", "name another file, or a new one")
    with RunFile(path, note) as runs:
        try:
            yield runs
        except BaseException as error:
            # A command whose parts did not all run ends with Exit; it can be resumed too.
            if runs.records and not (isinstance(error, typer.Exit) and not error.exit_code):
                note(f"{len(runs.records)} finished pieces are kept; continue with --resume {path}")
            elif resume is None:
                path.unlink()
            raise
    if resume is None:
        path.unlink()


def end(outcome: Outcome) -> None:
    """Note what was not measured, and exit with the code for it.

    Raises:
        typer.Exit: a part failed, or one that was requested cannot run here.
    """
    for part in outcome.not_run:
        note(f"not measured: {part.part}: {part.reason}")
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)
