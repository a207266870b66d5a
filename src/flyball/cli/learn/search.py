"""`flyball learn search`: hyper-parameters of the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.learn.extras import require_torch
from flyball.cli.long_run import Resume, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput, UnknownName

EXAMPLES = """\b
Examples:
  flyball learn search --resume search.jsonl --figure search.png
  flyball learn search --searches genetic --trials 40 --steps 12 --seeds 1
  flyball learn search --kind dqn --trials 8 --seeds 2 --json
\b
Every search gets the same trials from the same start. The best numbers are printed as --set
options for `flyball learn train`.
"""


def search(
    kind: Annotated[str, typer.Option(help="hybrid, dqn or pg.")] = "hybrid",
    body: Annotated[str, typer.Option(help="conv-lstm or mlp.")] = "conv-lstm",
    searches: Annotated[
        str, typer.Option(help="Some of genetic, random, swarm, separated by commas.")
    ] = "genetic,random,swarm",
    trials: Annotated[int, typer.Option(help="Trainings of each search and seed.")] = 16,
    steps: Annotated[int, typer.Option(help="Chapters of a training.")] = 4,
    seeds: Annotated[int, typer.Option(help="Seeds of each search.")] = 5,
    problems: Annotated[int, typer.Option(help="Problems that a trial is judged on.")] = 6,
    workers: Annotated[int, typer.Option(help="Processes; 0 = one per core.")] = 0,
    figure: Annotated[
        Path | None, typer.Option(help="Draw best score by trials: a .png, .svg or .pdf file.")
    ] = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Search hyper-parameters three ways at equal budget; say whether the genetic one pays."""
    for value, name, most in (
        (trials, "--trials", 10_000), (steps, "--steps", 10_000), (seeds, "--seeds", 100),
        (problems, "--problems", 1000),
    ):  # fmt: skip
        whole_number(value, name, 1, most)
    whole_number(workers, "--workers", 0, 1024)
    if kind not in ("hybrid", "dqn", "pg"):
        raise UnknownName("kind of agent", kind, ["hybrid", "dqn", "pg"])
    if body not in ("conv-lstm", "mlp"):
        raise UnknownName("body", body, ["conv-lstm", "mlp"])
    check_writable(figure, (".png", ".svg", ".pdf"))
    from flyball.learn.search.searches import SEARCHES

    names = tuple(name.strip() for name in searches.split(",") if name.strip())
    for name in names:
        if name not in SEARCHES:
            raise UnknownName("search", name, SEARCHES)
    if not names:
        raise BadInput("no search is named", f"known: {', '.join(SEARCHES)}")
    require_torch("the agent")
    from flyball.app import warm
    from flyball.experiments.learning import hyper

    plan = hyper.SearchPlan(
        kind=kind, body=body, trials=trials, steps=steps, seeds=seeds, problems=problems,
        searches=names,
    )  # fmt: skip
    warm(note)
    with kept_results(resume, "learn-search") as runs:
        total = trials * seeds * len(names)
        with progress("searching", total, as_json) as advance:
            searched = hyper.search(plan, runs, advance, workers or None)
    if figure is not None:
        hyper.plot(searched, figure)
    rows, best = hyper.summary(plan, searched), hyper.best_settings(plan, searched)
    if as_json:
        scores = [{"search": s.name, "seed": s.seed, "scores": s.scores} for s in searched]
        print_json({"summary": rows, "best": best, "trials": scores})
        return
    header = ("search", "best, % of incumbent", "apart from random, points", "95 %")
    cells = [
        (
            row["search"], f"{row['best_pct']:+.2f}",
            f"{row['apart']:+.2f}" if "apart" in row else "-",
            f"{row['low']:+.2f}..{row['high']:+.2f}" if "apart" in row else "-",
        )
        for row in rows
    ]  # fmt: skip
    print_table(f"{trials} trials each, {seeds} seeds; less is better", header, cells)
    genetic = next((row for row in rows if row["search"] == "genetic" and "pays" in row), None)
    if genetic is not None:
        verdict = "pays" if genetic["pays"] else "does not pay at this budget"
        typer.echo(f"the genetic search {verdict} against random search")
    options = " ".join(f"--set {name}={value:.4g}" for name, value in best.items())
    note(f"the best trial: flyball learn train --kind {kind} {options} --out runs/best")
