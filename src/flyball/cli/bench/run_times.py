"""`flyball bench run-times`: what quantiles of predicted run times are worth to a policy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress

EXAMPLES = """\b
Examples:
  flyball bench run-times
  flyball bench run-times --seeds 4 --scenarios uniform,bursts --json
"""


def run_times(
    seeds: Annotated[int, typer.Option(help="Generated workloads of each scenario.")] = 12,
    scenarios: Annotated[
        str, typer.Option(help="Scenarios, separated by commas. [default: four of them]")
    ] = "",
    jobs: Annotated[int, typer.Option(help="Jobs of a workload.")] = 500,
    as_json: AsJson = False,
) -> None:
    """Compare policies with and without quantiles of predicted run times, over the same seeds."""
    from flyball.experiments.forecasts import run_times as bench
    from flyball.twin.twin import warm

    whole_number(seeds, "--seeds", 1, 1000)
    whole_number(jobs, "--jobs", 100, 100_000)
    names = [name.strip() for name in scenarios.split(",") if name.strip()] or bench.SCENARIOS
    warm(note)
    with progress("replaying", bench.steps(seeds, names), as_json) as advance:
        figures = bench.run(seeds, names, jobs, advance)
    if as_json:
        print_json(figures)
        return
    header = ("policy", "estimates", "scenario", "level", "completion", "wait", "p95", "late heads")
    title = (
        f"Change against level 0.5 (estimates as they are), {seeds} seeds, estimates off by "
        f"sigma {figures['sigma']:g} or predicted; * = chosen on {len(figures['choosing_seeds'])} "
        "other seeds"
    )
    print_table(title, header, [_cells(row) for row in figures["rows"]])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    level = f"{row['level']:g}{' *' if row['chosen'] else ''}"
    changes = (row[name] for name in ("completion_mean_s", "wait_mean_s", "completion_p95_s"))
    late = row["late_heads"]
    return (
        row["policy"],
        row["estimates"],
        row["scenario"],
        level,
        *(f"{c['change']:+.1%} ({c['low']:+.1%} to {c['high']:+.1%})" for c in changes),
        f"{late['value']:.1%}",
    )
