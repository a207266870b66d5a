"""`flyball backup` copies the journal, and `flyball restore` puts a copy back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.live import State
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.core.units import US_PER_S

BACKUP_EXAMPLES = """\b
Examples:
  flyball backup journal-monday.db         (also while the server runs)
  flyball backup --force latest.db --state ~/queue
  flyball restore journal-monday.db        (stop the server first)
"""

RESTORE_EXAMPLES = """\b
Examples:
  flyball restore journal-monday.db        (stop the server first)
  flyball restore latest.db --state ~/queue --json
"""

JOURNAL = "journal.db"


def backup(
    out: Annotated[Path, typer.Argument(metavar="FILE", help="File to write, mode 600.")],
    force: Annotated[bool, typer.Option(help="Replace FILE if it exists.")] = False,
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Copy the journal to a file, consistent and verified, even while the server runs."""
    from flyball.control.journal.backup import write_backup
    from flyball.sdk.endpoint import state_folder

    contents = write_backup(state_folder(state) / JOURNAL, out, force)
    if as_json:
        print_json({"out": str(out), "bytes": out.stat().st_size, **contents._asdict()})
        return
    note(
        f"wrote {out}: {contents.jobs:,} jobs, {contents.events:,} events{_until(contents.last_us)}"
    )


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File that `flyball backup` wrote.")],
    as_json: AsJson = False,
    state: State = None,
) -> None:
    """Replace the journal with a backup; the old journal is kept. The server must be stopped.

    Jobs submitted after the backup are forgotten; their numbers are not used again. Those that
    still run are ended at the next start.
    """
    from flyball.api.state_folder import locked, open_state
    from flyball.control.journal.backup import restore_backup
    from flyball.sdk.endpoint import state_folder

    folder = open_state(state_folder(state))
    with locked(folder):
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        contents, kept = restore_backup(file, folder / JOURNAL, stamp)
    if as_json:
        print_json({"state": str(folder), "kept": str(kept) if kept else "", **contents._asdict()})
        return
    note(f"restored {contents.jobs:,} jobs, {contents.events:,} events{_until(contents.last_us)}")
    if kept is not None:
        note(f"the old journal is now {kept}")


def _until(last_us: int) -> str:
    """Return `, up to 2026-03-01 12:30:00`; empty if there is no event."""
    if not last_us:
        return ""
    return time.strftime(", up to %Y-%m-%d %H:%M:%S", time.localtime(last_us / US_PER_S))
