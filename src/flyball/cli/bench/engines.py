"""`flyball bench engines`: the cost of watching a real Slurm queue, and its forecasts."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.core.errors import UnknownName

PARTS = ("cost", "starts")
EXAMPLES = """\b
Examples:
  flyball bench engines
  flyball bench engines --only cost
  flyball bench engines --only starts --starts 60
\b
It starts real Slurm daemons of its own (`make servers` installs them) and ends them.
"""


def engines(
    only: Annotated[str, typer.Option(help="cost, starts, or empty for both.")] = "",
    jobs: Annotated[int, typer.Option(help="cost: number of pending jobs.")] = 1000,
    starts: Annotated[int, typer.Option(help="starts: number of real starts.")] = 300,
    seed: Annotated[int, typer.Option(help="starts: seed of the jobs' kinds and run times.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure what watching a real Slurm queue costs, and its forecasts beside Slurm's own."""
    if only and only not in PARTS:
        raise UnknownName("part", only, PARTS)
    whole_number(jobs, "--jobs", 1, 5000)
    whole_number(starts, "--starts", 10, 2000)
    whole_number(seed, "--seed", 0, 2**31 - 1)
    from flyball.bench.engines import poll_cost, slurm_starts
    from flyball.bench.figure import figure_of

    answers: dict[str, Any] = {}
    if only in ("", "cost"):
        answers["cost"] = poll_cost.measure(note, jobs)
    if only in ("", "starts"):
        answers["starts"] = slurm_starts.measure(note, starts, seed)
    if as_json:
        print_json(answers)
        return
    titles = {
        "cost": f"{jobs:,} pending jobs on a private Slurm cluster",
        "starts": f"{answers.get('starts', {}).get('starts', 0)} real starts, seed {seed}",
    }
    for name, answer in answers.items():
        rows = [figure_of(row, "name") for row in answer["figures"]]
        print_figures(titles[name], rows)
