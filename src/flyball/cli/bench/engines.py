"""`flyball bench engines`: watching a real Slurm queue, and own jobs on it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, whole_number
from flyball.core.errors import UnknownName

PARTS = ("cost", "starts", "own", "storm")
EXAMPLES = """\b
Examples:
  flyball bench engines
  flyball bench engines --only cost
  flyball bench engines --only starts --starts 60
  flyball bench engines --only storm --storm 40 --seed 7
\b
It starts real Slurm daemons of its own (`make servers` installs them) and ends them.
"""


def engines(
    only: Annotated[
        str, typer.Option(help="cost, starts, own (what our queue adds), storm, or empty for all.")
    ] = "",
    jobs: Annotated[
        int, typer.Option(help="cost: number of pending jobs; own: of jobs of others.")
    ] = 1000,
    storm: Annotated[int, typer.Option(help="storm: number of own jobs.")] = 200,
    starts: Annotated[int, typer.Option(help="starts: number of real starts.")] = 300,
    seed: Annotated[
        int, typer.Option(help="starts, storm: seed of the jobs and of what is killed.")
    ] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure watching a real Slurm queue, and own jobs on it, also while everything is killed."""
    if only and only not in PARTS:
        raise UnknownName("part", only, PARTS)
    whole_number(jobs, "--jobs", 1, 5000)
    whole_number(starts, "--starts", 10, 2000)
    whole_number(seed, "--seed", 0, 2**31 - 1)
    whole_number(storm, "--storm", 5, 2000)
    from flyball.bench.engines import own_cost, poll_cost, slurm_starts, slurm_storm
    from flyball.bench.figure import figure_of

    answers: dict[str, Any] = {}
    if only in ("", "cost"):
        answers["cost"] = poll_cost.measure(note, jobs)
    if only in ("", "starts"):
        answers["starts"] = slurm_starts.measure(note, starts, seed)
    if only in ("", "own"):
        answers["own"] = own_cost.measure(note, foreign=jobs)
    if only in ("", "storm"):
        answers["storm"] = slurm_storm.measure(note, storm, seed)
    if as_json:
        print_json(answers)
        return
    titles = {
        "cost": f"{jobs:,} pending jobs on a private Slurm cluster",
        "starts": f"{answers.get('starts', {}).get('starts', 0)} real starts, seed {seed}",
        "own": "own jobs on a private Slurm cluster",
        "storm": f"{storm} own jobs while everything around them is killed, seed {seed}",
    }
    for name, answer in answers.items():
        rows = [figure_of(row, "name") for row in answer["figures"]]
        print_figures(titles[name], rows)
