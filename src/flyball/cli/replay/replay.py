"""`flyball replay`: replays a trace on a cluster under one or more policies."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.options import (
    CLUSTER_HELP,
    TRACE_HELP,
    AsJson,
    Estimates,
    FirstJobs,
    Load,
    MtbfHours,
    RecordedOn,
    RepairHours,
    SkipUnfit,
    StaticBatch,
    TraceFormat,
)
from flyball.cli.output import check_writable, note, print_json, whole_number
from flyball.cli.progress import progress
from flyball.cli.replay import tuned as tuning
from flyball.cli.replay.decisions import verify
from flyball.core.errors import BadInput

if TYPE_CHECKING:
    from flyball.experiments.replay import ReplayCase, Run

FIGURE_ENDINGS = (".png", ".svg", ".pdf")

EXAMPLES = """\b
Examples:
  flyball replay jobs.csv --cluster five-mixed --policy fifo,easy,ect
  flyball replay jobs.csv.gz --cluster mine.yaml --policy easy --set depth=100 --json
  flyball replay jobs.swf --cluster philly-8x8 --policy all --figure out.png --per-job out.csv
  flyball replay jobs.csv --cluster five-mixed --estimates noisy:0.8 --mtbf-h 500 --seeds 10
  flyball replay jobs.csv -c sia-mixed --policy easy --tune elastic,power --seeds 5
  flyball replay jobs.csv -c sia-mixed --policy tuned --tune elastic --weights completion=1
  flyball replay jobs.csv -c sia-mixed --without elastic,share,power --seeds 5 --json
  flyball replay jobs.csv -c sia-mixed --pareto energy,completion --figure front.png
  flyball replay workloads.csv.gz#philly/1 -c sia-mixed --policy srtf,las --costs sia
  flyball replay jobs.csv -c priced.yaml --policy easy --tune defer,power --slack 4h
  flyball replay jobs.csv -c sia-mixed --policy easy --pathways cluster --seeds 5
  flyball replay jobs.csv -c five-mixed --policy easy,mypolicy.py
  flyball replay jobs.csv -c five-mixed --policy fifo,easy,srtf --report policies.html
  flyball replay --decisions ~/.local/state/flyball
"""


def replay(
    trace: Annotated[Path | None, typer.Argument(help=TRACE_HELP)] = None,
    cluster: Annotated[str | None, typer.Option("--cluster", "-c", help=CLUSTER_HELP)] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy",
            "-p",
            help="Policies, separated by commas, or `all`; see `policies`. Your own: FILE.py or "
            "module:NAME. [default: all; with tuners or pathways: easy]",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="knob=value, for every policy that is run; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Runs per policy, with seeds 0, 1, ...")] = 1,
    as_json: AsJson = False,
    per_job: Annotated[
        Path | None, typer.Option(help="Write one row per policy, seed and job to this CSV.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure: a .png, .svg or .pdf file.")
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write a report for people: one .html file with tables and figures."),
    ] = None,
    estimates: Estimates = "trace",
    mtbf_h: MtbfHours = 0.0,
    repair_h: RepairHours = 4.0,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds to write a checkpoint.")] = 0.0,
    checkpoint_every_s: Annotated[
        float, typer.Option(help="Seconds between checkpoints that survive failures; 0 = none.")
    ] = 0.0,
    restart_s: Annotated[
        float | None,
        typer.Option(help="Seconds to set up a restart. [default: by gang size, 7/30/60]"),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            help="Set-up times and slowdowns by application as a simulator has them: sia, pollux."
        ),
    ] = None,
    recorded_on: RecordedOn = None,
    record: Annotated[
        bool,
        typer.Option(help="Show what was recorded, if the trace has start times."),
    ] = True,
    site_policy: Annotated[
        str | None,
        typer.Option(help="Which of these policies the recorded cluster used."),
    ] = None,
    load: Load = None,
    limit_jobs: FirstJobs = None,
    trace_format: TraceFormat = None,
    static_batch: StaticBatch = False,
    skip_unfit: SkipUnfit = False,
    workers: Annotated[
        int, typer.Option(help="Maximum number of processes; 0 = one per core.")
    ] = 0,
    tune: tuning.Tune = None,
    tune_every: tuning.TuneEvery = None,
    tune_set: tuning.TuneSet = None,
    weights: tuning.Goals = None,
    optimise: tuning.Feedback = False,
    forecast: tuning.UseForecast = None,
    elastic_share: tuning.ElasticShare = None,
    adaptive_batch: tuning.AdaptiveBatch = False,
    share_limit: tuning.ShareLimit = None,
    speed_error: tuning.SpeedError = None,
    slack: tuning.Slack = None,
    without: tuning.Without = None,
    pareto: tuning.Pareto = None,
    pareto_points: tuning.ParetoPoints = None,
    pathways: tuning.Pathways = None,
    fetch_share: tuning.FetchShare = None,
    adjustments: tuning.Adjustments = None,
    decisions: Annotated[
        Path | None,
        typer.Option(
            metavar="STATE", help="Instead: recompute a live system's decisions and compare."
        ),
    ] = None,
) -> None:
    """Replay a trace on a cluster's twin and compare policies."""
    if decisions is not None:
        verify(decisions, as_json)
        return
    # 1. Check the options before the long part.
    if trace is None or cluster is None:
        missing = "TRACE" if trace is None else "--cluster"
        raise BadInput(f"{missing} is missing", "see flyball replay --help")
    check_writable(per_job)
    check_writable(adjustments)
    check_writable(figure or (tuning.PARETO_FILE if pareto else None), FIGURE_ENDINGS)
    check_writable(report, (".html",))
    whole_number(workers, "--workers", 0, 1024)
    from flyball.experiments.own_policy.settings import named_policies
    from flyball.experiments.record_report import check_site_policy
    from flyball.experiments.request import Reading, ReplayOptions, prepare
    from flyball.experiments.tuning.options import DEFAULT_POLICY, TuningOptions
    from flyball.twin.inputs.cluster_file import load_cluster

    changed = tuple(tuning.goal_settings(weights, tune, tune_set))
    tuning_options = TuningOptions(
        *(tune, tune_every, changed, optimise, elastic_share, adaptive_batch),
        *(share_limit, speed_error, without, pareto, pareto_points, adjustments is not None),
        forecast=forecast,
        slack_s=tuning.slack_s(slack),
        pathways=pathways,
        fetch_share=fetch_share,
    )
    options = ReplayOptions(
        Reading(trace_format, load, limit_jobs, estimates, recorded_on or "", static_batch),
        tuning_options,
        *(seeds, mtbf_h, repair_h, checkpoint_s, checkpoint_every_s, restart_s, skip_unfit),
        record,
        keep="all" if per_job else "first" if (figure and not pareto) or report else "none",
        costs=costs,
    )
    tuning_options.check()
    few = tuning_options.tuned or pathways is not None
    named = policy or (DEFAULT_POLICY if few else "all")
    chosen = named_policies(named, settings or [])
    # 2. Read.
    case, arms = prepare(
        trace, load_cluster(cluster), chosen, options, explicit="all" not in named.split(",")
    )
    for text in case.notes:
        note(f"note: {text}")
    check_site_policy(case, site_policy)
    # 3. Run.
    with redirect_stdout(sys.stderr):  # what a user's own policy prints
        runs = run_with_progress(case, workers, quiet=as_json)
    # 4. Write, then print.
    from flyball.cli.replay import report as tables
    from flyball.experiments.report import report_json

    if per_job is not None:
        tables.write_per_job(per_job, runs, case)
    if report is not None:
        tables.write_page(report, runs, case, site_policy)
    if adjustments is not None:
        tuning.write_adjustments(adjustments, runs)
    if figure is not None and pareto is None:
        tables.write_figure(figure, runs, f"{case.workloads[0].name} on {case.cluster.name}")
    if arms is not None:
        tuning.show(tuning_options, runs, case, arms, figure, as_json, site_policy)
    elif as_json:
        print_json(report_json(runs, case, site_policy))
    else:
        tables.print_runs(runs, case, site_policy)


def run_with_progress(case: ReplayCase, workers: int = 0, quiet: bool = False) -> list[Run]:
    """Run all runs of a case, with progress on stderr unless `quiet`."""
    from flyball.experiments.replay import run_all

    with progress("replaying", len(case.tasks()), quiet) as advance:
        return run_all(case, workers or None, lambda run: advance(run.policy), note)
