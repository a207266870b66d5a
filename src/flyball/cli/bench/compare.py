"""`flyball bench compare`: every policy on every scenario, with intervals and regret."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.options import AsJson, SkipUnfit
from flyball.cli.output import check_writable, note, print_json, print_table, whole_number
from flyball.cli.progress import progress
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.experiments.compare.report import Table
    from flyball.experiments.compare.runs import ComparePlan
    from flyball.experiments.compare.summary import Comparison
    from flyball.experiments.run_file import Record
    from flyball.experiments.scenarios import Scenario

MAX_SEEDS = 1000
RUNS, JSON, PAGE, FIGURE = "runs.jsonl", "compare.json", "compare.md", "compare.png"
POLICIES = "policies.md"

EXAMPLES = """\b
Examples:
  flyball bench compare
  flyball bench compare --list
  flyball bench compare --scenarios saturated,bursts --policies fifo,easy,srtf --seeds 10
  flyball bench compare --policies all,tuned:mine.json --baseline easy --out mine
  flyball bench compare --scenarios held-out --policies easy,tuned,tuned:before --baseline easy
  flyball bench compare -p easy,mypolicy.py --baseline easy --scenarios half-loaded --seeds 3
\b
Runs are kept in the folder as they end: the same command again runs only those that are missing.
"""

ScenarioNames = Annotated[
    str,
    typer.Option(
        help="Scenarios, separated by commas; `all` = all generated ones, `held-out` = those that "
        "nothing was tuned on; see --list."
    ),
]
Workers = Annotated[int, typer.Option(help="Maximum number of processes; 0 = one per core.")]


def compare(
    scenarios: ScenarioNames = "all",
    policies: Annotated[
        str,
        typer.Option(
            "--policies",
            "--policy",
            "-p",
            help="Policies, separated by commas, or `all`; see `policies`. Your own: FILE.py or "
            "module:NAME.",
        ),
    ] = "all",
    seeds: Annotated[int, typer.Option(help="Workloads per scenario.")] = 5,
    first_seed: Annotated[int, typer.Option(help="Their seeds are this one and the next.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the runs, tables and figure.")] = Path(
        "compare-out"
    ),
    baseline: Annotated[
        str, typer.Option(help="Policy that changes are measured from, besides fifo and easy.")
    ] = "fifo-skip",
    skip_unfit: SkipUnfit = False,
    workers: Workers = 0,
    listing: Annotated[bool, typer.Option("--list", help="List the scenarios.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare policies on many scenarios: intervals, and regret against lower bounds."""
    from flyball.experiments.held_out import named_scenarios

    chosen = named_scenarios(scenarios)
    if listing:
        _print_scenarios(chosen, as_json)
        return
    # 1. Refuse what can be refused before the long part.
    whole_number(seeds, "--seeds", 1, MAX_SEEDS)
    whole_number(first_seed, "--first-seed", 0, 2**31)
    whole_number(workers, "--workers", 0, 1024)
    from flyball.experiments.compare.runs import ComparePlan
    from flyball.experiments.compare.summary import baselines
    from flyball.experiments.compare.summary import compare as summed_up
    from flyball.experiments.own_policy.settings import named_policies

    settings = named_policies(policies)
    baselines([setting.name for setting in settings], baseline)
    make_folder(out)
    for name in (RUNS, JSON, PAGE, FIGURE, POLICIES):
        check_writable(out / name)
    # 2. Run what is missing.
    must_fit = tuple(settings) if skip_unfit else ()
    chosen_seeds = tuple(range(first_seed, first_seed + seeds))
    plan = ComparePlan(tuple(chosen), tuple(settings), chosen_seeds, must_fit)
    failed: dict[str, str] = {}
    records = _run(plan, out / RUNS, workers, failed, as_json)
    if baseline in failed:
        raise BadInput(f"{baseline} cannot be run {failed[baseline]}", "name another --baseline")
    comparison = summed_up(plan.without(failed), records, baseline)
    _note_left_out(plan, records)
    # 3. Write, then print.
    command = (
        f"flyball bench compare --scenarios {scenarios} --policies {policies} --seeds {seeds} "
        f"{f'--first-seed {first_seed} ' if first_seed else ''}--baseline {baseline}"
        f"{' --skip-unfit' if skip_unfit else ''}"
    )
    _write(comparison, out, command)
    if as_json:
        print_json(comparison.as_dict())
    else:
        print_comparison(comparison)
    note(f"wrote {out / JSON}, {PAGE}, {POLICIES} and {FIGURE}")
    for name, reason in failed.items():
        note(f"not compared: {name}, refused {reason}")
    if failed:
        raise typer.Exit(BadInput.exit_code)


def _run(
    plan: ComparePlan, path: Path, workers: int, failed: dict[str, str], quiet: bool
) -> list[Record]:
    from flyball.app import warm
    from flyball.experiments.compare.runs import run_plan
    from flyball.experiments.run_file import RunFile

    warm(note)
    tasks = plan.tasks()
    with RunFile(path, note) as runs, progress("comparing", len(tasks), quiet) as advance:
        before = len(runs.records)
        try:
            return run_plan(
                plan, runs, workers or None, lambda record: advance(_label(record)), failed
            )
        except KeyboardInterrupt:
            count = len(runs.records) - before
            note(f"interrupted after {count} new runs, kept in {path}; run it again to continue")
            raise


def _note_left_out(plan: ComparePlan, records: list[Record]) -> None:
    """Note the jobs of each scenario that fit nowhere, over all seeds."""
    from flyball.experiments.compare.summary import left_out
    from flyball.experiments.unfit import left_out_text

    for scenario in plan.scenarios:
        rows = [row for row in records if row["scenario"] == scenario.name and "bounds" in row]
        text = left_out_text(left_out(scenario.name, rows), sum(row["jobs"] for row in rows))
        if text:
            note(f"note: {scenario.name}: {text}")


def _label(record: Record) -> str:
    return f"{record['scenario']} {record.get('policy', 'bound')}"


def make_folder(folder: Path) -> None:
    """Create the folder unless it exists.

    Raises:
        BadInput: something else is in its place, or it may not be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"{folder}: {error.strerror}", "name another folder") from None


def print_comparison(comparison: Comparison) -> None:
    """Print the tables that sum it up."""
    from flyball.experiments.compare.report import change_table, fairness_table, relative_table

    for table in (relative_table, change_table, fairness_table):
        show(table(comparison))


def show(table: Table) -> None:
    """Print a table, its title on one line however narrow the table is."""
    typer.echo(f"{table.title}\n")
    print_table("", table.header, table.rows)


def _write(comparison: Comparison, out: Path, command: str) -> None:
    import json

    from flyball.experiments.compare.figure import compare_figure
    from flyball.experiments.compare.policy_page import policy_page
    from flyball.experiments.compare.report import markdown
    from flyball.twin.inputs.traces.files import replacing

    with replacing(out / JSON) as file:
        file.write(json.dumps(comparison.as_dict(), indent=1, allow_nan=False) + "\n")
    with replacing(out / PAGE) as file:
        file.write(markdown(comparison, command, FIGURE))
    with replacing(out / POLICIES) as file:
        file.write(policy_page(comparison, command))
    image = compare_figure(comparison)
    with replacing(out / FIGURE) as file:
        file.buffer.write(image)


def _print_scenarios(scenarios: list[Scenario], as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for scenario in scenarios:
        cluster = scenario.make_cluster()
        groups = [f"{g.count} x {g.devices} {g.device}" for g in cluster.groups]
        rows.append(
            {
                "scenario": scenario.name,
                "devices": cluster.device_count,
                "jobs": scenario.jobs,
                "load": scenario.load,
                "groups": groups,
                "about": scenario.about,
            }
        )
    if as_json:
        print_json({"scenarios": rows})
        return
    cells = [
        (
            row["scenario"],
            row["about"],
            ", ".join(row["groups"]),
            str(row["jobs"]),
            "at once" if row["load"] is None else f"{row['load']:g}",
        )
        for row in rows
    ]
    print_table("Scenarios", ("scenario", "what is special", "nodes", "jobs", "load"), cells, 3)
