"""`flyball bench submit`: speed and resource use of the live system on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench submit --quick
  flyball bench submit --json > submit.json
  flyball bench submit --resume submit.jsonl
  flyball bench submit --only submits --only batches --folder /var/tmp
\b
Parts: submits, batches, cycles, idle, jobs, speed, recovery. See docs/guide/live-performance.md.
"""


def submit(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part; may be repeated.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes, for a first look.")] = False,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for temporary state, on the disk to measure.")
    ] = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure submits, decisions, memory, short and long jobs and recovery, against bars."""
    from flyball.bench.figure import figure_of
    from flyball.bench.submit.parts import PARTS, run

    with kept_results(resume, "submit") as runs:
        with progress("measuring", len(only or PARTS), as_json) as advance:
            outcome, machine = run(note, runs, only or (), quick, folder, advance)
        if as_json:
            missing = outcome.missing()
            print_json({"rows": outcome.rows, "machine": machine, "not_run": missing})
        else:
            figures = [figure_of(row, "figure") for row in outcome.rows]
            print_figures(_title(machine), figures)
            for row in outcome.rows:
                if row.get("about"):
                    note(f"{row['figure']}: {row['about']}")
        end(outcome)


def _title(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores ({machine['cpu']}), {machine['file_system']} with "
        f"{machine['sync_ms']:.2g} ms a sync, load {machine['load_1m_before']:.1f} to "
        f"{machine['load_1m_after']:.1f}" + (", small sizes" if machine["quick"] else "")
    )
