"""`flyball demo`: generates a week of jobs and compares policies on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.lazy import LazyGroup, Part
from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json, whole_number

PRESET = "mixed"
CLUSTER = "five-mixed"
POLICIES = "fifo,fifo-skip,easy,sjf,saf,srtf,las,ect"

EXAMPLES = """\b
Examples:
  flyball demo
  flyball demo --seeds 1 --load 0.7 --out /tmp/demo
  flyball demo live
"""
PARTS = {
    "live": Part(
        "server.demo_live:demo_live",
        "Submit a dozen small training jobs, watch the queue, ask why, predict, show a receipt.",
    )
}


class Demo(LazyGroup):
    """Adds the subcommands of `flyball demo`."""

    parts = PARTS


app = typer.Typer(cls=Demo, invoke_without_command=True, rich_markup_mode=None, epilog=EXAMPLES)


@app.callback()
def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the trace and the figure.")] = Path(
        "demo-out"
    ),
    seeds: Annotated[
        int, typer.Option(help="Number of generated traces, with seeds 0, 1, ...")
    ] = 5,
    days: Annotated[float, typer.Option(help="Length of each trace, in days.")] = 7.0,
    load: Annotated[float, typer.Option(help="Offered load; 1 = all GPUs always busy.")] = 1.2,
    cluster: Annotated[
        str, typer.Option("--cluster", "-c", help="Cluster file or preset.")
    ] = CLUSTER,
    as_json: AsJson = False,
) -> None:
    """Replay a generated week on five mixed nodes under eight policies; `live` runs real jobs."""
    if context.invoked_subcommand is not None:
        return
    whole_number(seeds, "--seeds", 1, 100)
    out.mkdir(parents=True, exist_ok=True)
    trace, figure = out / "trace.csv", out / "policies.png"
    check_writable(trace)
    from flyball.app import policy_settings
    from flyball.cli.replay import report
    from flyball.cli.replay.replay import run_with_progress
    from flyball.core.effects import Effects
    from flyball.experiments.replay import ReplayCase
    from flyball.experiments.report import report_json
    from flyball.twin.generate import generate
    from flyball.twin.inputs.cluster_file import load_cluster
    from flyball.twin.inputs.recorded_on import scalings, sentences
    from flyball.twin.inputs.traces import write_trace

    target = load_cluster(cluster)
    weeks = tuple(
        generate(PRESET, seed, days=days, load=load, devices=target.device_count)
        for seed in range(seeds)
    )
    write_trace(weeks[0], trace)
    case = ReplayCase(
        target, weeks, tuple(policy_settings(POLICIES, [])), Effects(), seeds, "first"
    )
    for text in sentences(scalings(weeks[0], target)):
        note(f"note: {text}")
    runs = run_with_progress(case, quiet=as_json)
    report.write_figure(figure, runs, f"A generated week ({PRESET}) on {target.name}")
    if as_json:
        print_json(report_json(runs, case))
    else:
        report.print_runs(runs, case)
    note(f"wrote {trace} and {figure}")
