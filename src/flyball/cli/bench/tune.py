"""`flyball bench tune`: what tuning is worth, each figure with its bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.experiments.tuning.families import FamilyPlan

EXAMPLES = """\b
Examples:
  flyball bench tune --only mixed --only speed --json > tune.json
  flyball bench tune --resume tune.jsonl
  flyball bench tune --family all --load 0.8,1.3 --seeds 1
  flyball bench tune --family philly,saturn,pollux --joined --load 1.3 --seeds 3
  flyball bench tune --family newtrace --workloads 6-10
\b
Parts: mixed, sharing, caps, replicas, pathways, completion, hesrpt, speed, live, live-caps
(docs/guide/tuning.md).
With --family: gains on families of workloads, against EASY and the best policy without tuners.
"""

MAX_SEEDS = 100


def tune(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Only this part; may be repeated.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            help="Families, separated by commas, or `all`: philly, saturn, pollux, newtrace."
        ),
    ] = None,
    workloads: Annotated[
        str | None, typer.Option(help="Their workloads, e.g. 1-6 or 2,5. [default: all]")
    ] = None,
    joined: Annotated[
        bool, typer.Option("--joined", help="Join the workloads of a family into one long history.")
    ] = False,
    load: Annotated[
        str | None, typer.Option(help="Loads, separated by commas. [default: 0.8,1.3]")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Draws of the elastic jobs, seeds 0, 1, ... [default: 3]")
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Maximum number of processes; 0 = one per core.")
    ] = 0,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure what elastic sizes, sharing, caps, sleep and replicas gain, against bars."""
    whole_number(workers, "--workers", 0, 1024)
    if family is not None:
        if only:
            raise BadInput("--only and --family do not go together", "use one of them")
        plan = _plan(family, workloads, joined, load, seeds)
        plan.check()
        _families(plan, workers, resume, as_json)
        return
    if joined or any(value is not None for value in (workloads, load, seeds)):
        raise BadInput(
            "--workloads, --joined, --load and --seeds apply to families only",
            "name one with --family, or --family all",
        )
    from flyball.bench.tune.parts import PARTS, figure_of, run

    with kept_results(resume, "tune") as runs:
        with progress("measuring", len(only or PARTS), as_json) as advance:
            outcome = run(note, only or (), runs, advance)
        if as_json:
            print_json({"rows": outcome.rows, "not_run": outcome.missing()})
        else:
            figures = [figure_of(row) for row in outcome.rows]
            labels = ("case", "load", "baseline")
            print_figures("What tuning is worth (changes in percent)", figures, labels)
        end(outcome)


def _families(plan: FamilyPlan, workers: int, resume: Any, as_json: bool) -> None:
    from flyball.app import warm
    from flyball.experiments.tuning.families import measure, rows_of

    with kept_results(resume, "tune") as runs:
        warm(note)
        with progress("measuring", len(plan.tasks()), as_json) as advance:
            results = measure(plan, runs, advance, workers or None)
    rows = rows_of(plan, results)
    left_out = sum(row["left_out"] for row in results.values())
    if left_out:
        note(f"{left_out} jobs are left out, in all runs: no pool of the cluster is large enough")
    if as_json:
        print_json({"rows": rows, "jobs_left_out": left_out})
        return
    header = ("workloads", "against", "load", "work %", "energy per work %", "completion %", "n")
    title = "Change by tuning in percent, with a 95 % interval (least to most of n)"
    print_table(title, header, family_cells(rows))


def family_cells(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a line for each family, load and kind of baseline; the best plain one may differ by
    metric."""
    lines: dict[tuple[str, float, bool], dict[str, dict[str, Any]]] = {}
    for row in rows:
        best = row["baseline"].startswith("best")
        lines.setdefault((row["case"], row["load"], best), {})[row["metric"]] = row
    out = []
    for (case, load, best), by_metric in lines.items():
        metrics = ("work_pct", "energy_per_work_pct", "completion_pct")
        texts = [_gain_text(by_metric[metric], best) for metric in metrics]
        name = "best plain" if best else "easy"
        out.append((case, name, f"{load:g}", *texts, str(by_metric["work_pct"]["n"])))
    return out


def _gain_text(row: dict[str, Any], best: bool) -> str:
    """Return `+17.5 (+9.1..+25.9; +4.6 to +39.8)`, and the policy if it was chosen afterwards."""
    interval = "" if row["n"] < 2 else f"{row['low']:+.1f}..{row['high']:+.1f}; "
    span = "" if row["n"] < 2 else f" ({interval}{row['least']:+.1f} to {row['most']:+.1f})"
    _, _, policy = row["baseline"].partition(": ")
    named = f" {policy.replace(' sleep_s=300', '+sleep')}" if best and policy else ""
    return f"{row['value']:+.1f}{span}{named}"


def _plan(
    family: str, workloads: str | None, joined: bool, load: str | None, seeds: int | None
) -> FamilyPlan:
    from flyball.experiments.tuning.families import FAMILIES, LOADS, SEEDS, FamilyPlan

    names = tuple(FAMILIES) if family == "all" else tuple(n for n in family.split(",") if n)
    loads = LOADS if load is None else tuple(_load(text) for text in load.split(","))
    numbers = () if workloads is None else _numbers(workloads)
    count = SEEDS if seeds is None else whole_number(seeds, "--seeds", 1, MAX_SEEDS)
    if not names:
        raise BadInput("no family is named", f"use {', '.join(FAMILIES)} or all")
    return FamilyPlan(names, numbers, loads, joined, count)


def _load(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10:
        raise BadInput(f"--load {text!r} is out of range", "use numbers above 0, at most 10")
    return value


def _numbers(text: str) -> tuple[int, ...]:
    """Parse `1-6,8`."""
    out: dict[int, None] = {}
    for piece in text.split(","):
        first, dash, last = piece.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise BadInput(f"--workloads {text!r} is not understood", "use e.g. 1-6 or 2,5")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= 1000:
            raise BadInput(f"--workloads {piece} is out of range", "they are numbered from 1 on")
        out |= dict.fromkeys(range(low, high + 1))
    return tuple(out)
