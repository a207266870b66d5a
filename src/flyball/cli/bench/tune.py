"""`flyball bench tune`: what tuning is worth, each figure with its bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.bench.figures import print_figures
from flyball.cli.bench.tune_peers import PEERS, peers
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
  flyball bench tune --only peers --costs sia --family philly,saturn --json
  flyball bench tune --only peers --costs pollux --durations noisy:1 --seeds 3
  flyball bench tune --only signals --regions ERCO,ES --markets DE --slack 0,24 --seeds 2 --json
\b
Parts: mixed, sharing, caps, replicas, pathways, completion, hesrpt, peers, signals, optimiser,
speed, live, live-caps (docs/guide/tuning.md). With --family: gains on families of workloads,
against EASY, FIFO and the best policy without tuners. With --costs: completion on the ground of
Sia or Pollux, against theirs.
"""

MAX_SEEDS = 100
MAX_SLACK_H = 720


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
        str | None, typer.Option(help="Loads, separated by commas. [default: 0.8,1.0,1.3,1.6]")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Draws of the elastic jobs, seeds 0, 1, ... [default: 3]; with --only peers, of "
            "the errors of --durations noisy and --speed-error. [default: 1]"
        ),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help="With --only peers: the costs and run times of `sia` or `pollux`. [default: both]"
        ),
    ] = None,
    durations: Annotated[
        str | None,
        typer.Option(
            help="With --only peers, what is known of run times: `ended` (only those of jobs that "
            "ended), `epochs` (all), noisy:SIGMA. [default: ended]"
        ),
    ] = None,
    speed_error: Annotated[
        float | None,
        typer.Option(
            help="With --only peers: spread of the errors of the speeds that tuners are given, "
            "e.g. 0.25. [default: 0]"
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="With --only peers: policies, separated by commas, and `elastic`. "
            "[default: srtf,las,max-min-het,tuned,elastic]"
        ),
    ] = None,
    regions: Annotated[
        str | None,
        typer.Option(help="Carbon regions of part signals, separated by commas. [default: ten]"),
    ] = None,
    markets: Annotated[
        str | None,
        typer.Option(help="Price markets of part signals, separated by commas. [default: five]"),
    ] = None,
    slack: Annotated[
        str | None,
        typer.Option(help="Hours that jobs of part signals may wait. [default: 0,4,24]"),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Maximum number of processes; 0 = one per core.")
    ] = 0,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure what elastic sizes, sharing, caps, sleep and replicas gain, against bars."""
    whole_number(workers, "--workers", 0, 1024)
    of_peers = (costs, durations, speed_error, policy)
    if only != [PEERS] and any(value is not None for value in of_peers):
        options = "--costs, --durations, --speed-error and --policy"
        raise BadInput(f"{options} need --only peers", "add it")
    if only == [PEERS]:
        if joined or load is not None:
            raise BadInput("--joined and --load do not go with peers", "leave them out")
        names = tuple(name for name in (family or "").split(",") if name)
        numbers = () if workloads is None else _numbers(workloads)
        count = whole_number(seeds or 1, "--seeds", 1, MAX_SEEDS)
        error = speed_error or 0.0
        peers(costs, names, numbers, durations, count, error, policy, workers, resume, as_json)
        return
    if family is not None:
        if only:
            raise BadInput("--only and --family do not go together", "use one of them")
        plan = _plan(family, workloads, joined, load, seeds)
        plan.check()
        _families(plan, workers, resume, as_json)
        return
    if only == ["signals"]:
        if joined or workloads is not None or load is not None:
            raise BadInput("--workloads, --joined and --load apply to families only", "see --help")
        _signals(regions, markets, slack, seeds, workers, resume, as_json)
        return
    if any(value is not None for value in (regions, markets, slack)):
        raise BadInput(
            "--regions, --markets and --slack apply to part signals only", "add --only signals"
        )
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


def _signals(
    regions: str | None,
    markets: str | None,
    slack: str | None,
    seeds: int | None,
    workers: int,
    resume: Any,
    as_json: bool,
) -> None:
    from flyball.app import warm
    from flyball.experiments.tuning import signals
    from flyball.experiments.tuning.signal_rows import rows_of

    plan = signals.SignalPlan(
        signals.REGIONS if regions is None else _names(regions),
        tuple(signals.MARKETS) if markets is None else _names(markets),
        signals.SLACKS_H if slack is None else tuple(_slack(text) for text in slack.split(",")),
        signals.SEEDS if seeds is None else whole_number(seeds, "--seeds", 1, MAX_SEEDS),
    )
    plan.check()
    with kept_results(resume, "tune") as runs:
        warm(note)
        with progress("measuring", len(plan.tasks()), as_json) as advance:
            results = signals.measure(plan, runs, advance, workers or None)
    rows = rows_of(plan, results)
    if as_json:
        print_json({"rows": rows})
        return
    header = ("where", "slack", "against", "change %", "within slack %", "missed", "completion h")
    print_table("Carbon or cost, change in percent with a 95 % interval", header, [
        (row["case"], row["load"], row["baseline"],
         f"{row['value']:+.1f} ({row['low']:+.1f}..{row['high']:+.1f})",
         f"{row['within_slack_pct']:.1f}", f"{row['missed']}", f"{row['completion_h']:.1f}")
        for row in rows
    ], 3)  # fmt: skip


def _names(text: str) -> tuple[str, ...]:
    """Parse `ERCO,ES`; empty or `none` = none."""
    names = (name.strip() for name in text.split(","))
    return tuple(name for name in names if name and name != "none")


def _slack(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_SLACK_H:
        raise BadInput(f"--slack {text!r} is out of range", f"use hours from 0 to {MAX_SLACK_H}")
    return value


def family_cells(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a line for each family, load and kind of baseline; the best plain one may differ by
    metric."""
    lines: dict[tuple[str, float, str], dict[str, dict[str, Any]]] = {}
    for row in rows:
        name = row["baseline"].partition(": ")[0]
        lines.setdefault((row["case"], row["load"], name), {})[row["metric"]] = row
    out = []
    for (case, load, name), by_metric in lines.items():
        metrics = ("work_pct", "energy_per_work_pct", "completion_pct")
        texts = [_gain_text(by_metric[metric]) for metric in metrics]
        out.append((case, name, f"{load:g}", *texts, str(by_metric["work_pct"]["n"])))
    return out


def _gain_text(row: dict[str, Any]) -> str:
    """Return `+17.5 (+9.1..+25.9; +4.6 to +39.8)`, and the policy if it was chosen afterwards."""
    interval = "" if row["n"] < 2 else f"{row['low']:+.1f}..{row['high']:+.1f}; "
    span = "" if row["n"] < 2 else f" ({interval}{row['least']:+.1f} to {row['most']:+.1f})"
    _, _, policy = row["baseline"].partition(": ")
    named = f" {policy.replace(' sleep_s=300', '+sleep')}" if policy else ""
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
