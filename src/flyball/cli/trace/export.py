"""`flyball trace export`: writes a live system's history as a trace that can be replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json
from flyball.core.errors import BadInput

EXAMPLES = """\b
Examples:
  flyball trace export history.jsonl
  flyball trace export history.jsonl.gz --state /srv/flyball
  flyball replay history.jsonl --cluster mine.yaml --policy fifo,easy
"""

ENDINGS = (".jsonl", ".jsonl.gz")
JOURNAL = "journal.db"


def export(
    out: Annotated[Path, typer.Argument(help="File to write: .jsonl, or .jsonl.gz.")],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Write the jobs that ran here as a trace. The server may run or not; nothing is changed."""
    if not out.name.endswith(ENDINGS):
        raise BadInput(f"{out}: cannot write this kind of file", f"use {' or '.join(ENDINGS)}")
    check_writable(out)
    from flyball.control.journal.history import History
    from flyball.sdk.endpoint import state_folder

    with History(state_folder(state) / JOURNAL) as history:
        notes = history.export(out)
    if as_json:
        print_json({"out": str(out), "notes": notes})
        return
    for remark in notes:
        note(f"note: {remark}")
    note(f"wrote {out}")
