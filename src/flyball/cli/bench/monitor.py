"""`flyball bench monitor`: what monitoring costs on this machine, and whether it is accurate."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench monitor
  flyball bench monitor --seconds 30 --jobs 2 --json
"""


def monitor(
    seconds: Annotated[int, typer.Option(help="Length of each of the two runs.")] = 60,
    jobs: Annotated[int, typer.Option(help="Jobs to watch.")] = 8,
    processes: Annotated[int, typer.Option(help="Processes of each job.")] = 4,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU, memory and disk that monitoring takes; compare its values with psutil's."""
    whole_number(seconds, "--seconds", 11, 3600)
    whole_number(jobs, "--jobs", 1, 256)
    whole_number(processes, "--processes", 1, 64)
    from flyball.bench.monitor.cost import MODES, run

    with kept_results(resume, "monitor") as runs:
        with progress("measuring", len(MODES), as_json) as advance:
            outcome, figures = run(note, runs, float(seconds), jobs, processes, advance)
        if as_json:
            print_json({**figures, "not_run": outcome.missing()})
        else:
            _print(figures, processes, seconds)
        end(outcome)


def _print(figures: dict[str, Any], processes: int, seconds: int) -> None:
    from flyball.bench.figure import figure_of

    title = (
        f"{figures['jobs']} jobs of {processes} processes, {figures['cores']} cores, "
        f"{seconds} s at each rate"
    )
    print_figures(title, [figure_of(row, "name") for row in figures["bars"]])
    for name, why in figures["modes"].get("default", {}).get("absent", {}).items():
        note(f"not here: {name}: {why}")
