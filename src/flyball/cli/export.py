"""`flyball trace export`: a live system's own history, as a trace to be replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.live_options import State
from flyball.cli.output import check_writable, note

EXAMPLES = """\b
Examples:
  flyball trace export history.csv
  flyball trace export history.csv.gz --state /srv/flyball
  flyball replay history.csv --cluster mine.yaml --policy fifo,easy
"""


def export(
    out: Annotated[Path, typer.Argument(help="File to write; .gz is compressed.")],
    state: State = None,
) -> None:
    """Write the jobs that ran here as a trace. Reads the journal only; the server may run."""
    check_writable(out)
    from flyball.control.export import export_history
    from flyball.sdk.endpoint import state_folder

    for each in export_history(state_folder(state), out):
        note(f"note: {each}")
    note(f"wrote {out}")
