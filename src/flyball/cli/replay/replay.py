"""`flyball replay`: replays a trace on a cluster under one or more policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from flyball.core.cluster import Cluster
    from flyball.core.effects import Effects
    from flyball.core.workload import Workload
    from flyball.experiments.replay import ReplayCase, Run

MAX_SEEDS = 1000
FIGURE_ENDINGS = (".png", ".svg", ".pdf")

EXAMPLES = """\b
Examples:
  flyball replay jobs.csv --cluster five-mixed --policy fifo,easy,ect
  flyball replay jobs.csv.gz --cluster mine.yaml --policy easy --set depth=100 --json
  flyball replay jobs.swf --cluster philly-8x8 --policy all --figure out.png --per-job out.csv
  flyball replay jobs.csv --cluster five-mixed --estimates noisy:0.8 --mtbf-h 500 --seeds 10
  flyball replay jobs.csv -c sia-mixed --policy easy --tune elastic,power --seeds 5
  flyball replay jobs.csv -c sia-mixed --without elastic,share,power --seeds 5 --json
  flyball replay jobs.csv -c sia-mixed --pareto energy,completion --figure front.png
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
            help="Policies, separated by commas, or `all`; see `policies`. "
            "[default: all; with tuners: easy]",
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
    optimise: tuning.Feedback = False,
    forecast: tuning.UseForecast = None,
    elastic_share: tuning.ElasticShare = None,
    adaptive_batch: tuning.AdaptiveBatch = False,
    share_limit: tuning.ShareLimit = None,
    speed_error: tuning.SpeedError = None,
    without: tuning.Without = None,
    pareto: tuning.Pareto = None,
    pareto_points: tuning.ParetoPoints = None,
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
    check_writable(figure or (tuning.PARETO_FILE if pareto else None), FIGURE_ENDINGS)
    whole_number(seeds, "--seeds", 1, MAX_SEEDS)
    whole_number(workers, "--workers", 0, 1024)
    tuning_options = tuning.TuningOptions(
        *(tune, tune_every, tuple(tune_set or ()), optimise, elastic_share, adaptive_batch),
        *(share_limit, speed_error, without, pareto, pareto_points, adjustments),
        forecast=forecast,
    )
    tuning_options.check()
    from flyball.app import policy_settings
    from flyball.cli.replay.record import check_site_policy
    from flyball.core.effects import Effects
    from flyball.experiments.replay import ReplayCase
    from flyball.twin.inputs.cluster_file import load_cluster

    named = policy or (tuning.DEFAULT_POLICY if tuning_options.tuned else "all")
    chosen = policy_settings(named, settings or [])
    arms = (
        tuning.arms_of(tuning_options, chosen, "all" not in named) if tuning_options.tuned else None
    )
    target = load_cluster(cluster)
    effects = Effects(
        checkpoint_s=checkpoint_s,
        checkpoint_every_s=checkpoint_every_s,
        mtbf_h=mtbf_h,
        repair_h=repair_h,
        estimate_sigma=estimate_sigma(estimates),
        restart_s=Effects.restart_s if restart_s is None else (restart_s,) * 3,
        **tuning_options.effects(),
    )
    # 2. Read.
    notes: list[str] = []
    workload = read_workload(
        *(trace, trace_format, target, load, limit_jobs, estimates != "trace"),
        *(recorded_on or "", notes, static_batch),
    )
    if skip_unfit:
        from flyball.cli.replay.unfit import without_unfit

        fitting = without_unfit(workload, target, chosen, effects)
        workload = fitting.workload
        notes += [fitting.text] if fitting.text else []
    workloads = tuning_options.workloads(workload, seeds)
    if not (_is_random(workload, effects) or tuning_options.chance(workloads)):
        seeds = _single_seed(seeds, notes)
    # 3. Run.
    keep = "all" if per_job else "first" if figure and not pareto else "none"
    policies = tuple(chosen) if arms is None else arms.policies
    watch = adjustments is not None
    case = ReplayCase(
        target, workloads, policies, effects, seeds, keep, watch, tuple(notes), record
    )
    check_site_policy(case, site_policy)
    runs = run_with_progress(case, workers, quiet=as_json)
    # 4. Write, then print.
    from flyball.cli.replay import report

    if per_job is not None:
        report.write_per_job(per_job, runs, case)
    if adjustments is not None:
        tuning.write_adjustments(adjustments, runs)
    if figure is not None and pareto is None:
        report.write_figure(figure, runs, f"{workload.name} on {target.name}")
    if arms is not None:
        tuning.show(tuning_options, runs, case, arms, figure, as_json, site_policy)
    elif as_json:
        print_json(report.as_json(runs, case, site_policy))
    else:
        report.print_runs(runs, case, site_policy)


def run_with_progress(case: ReplayCase, workers: int = 0, quiet: bool = False) -> list[Run]:
    """Run all runs of a case, with progress on stderr unless `quiet`."""
    from flyball.experiments.replay import run_all

    with progress("replaying", len(case.tasks()), quiet) as advance:
        return run_all(case, workers or None, lambda run: advance(run.policy), note)


def read_workload(
    path: Path,
    trace_format: str | None,
    cluster: Cluster,
    load: float | None,
    limit_jobs: int | None,
    drop_estimates: bool,
    recorded_on: str = "",
    notes: list[str] | None = None,
    static_batch: bool = False,
) -> Workload:
    """Read a trace for a cluster, and print notes on what was left out, assumed and scaled.

    Args:
        path: the trace.
        trace_format: a name in `READERS`; None = detect it.
        cluster: the cluster it will run on.
        load: stretch or compress arrivals to this load.
        limit_jobs: take only the first jobs.
        drop_estimates: ignore the run times that users stated.
        recorded_on: device type of the jobs that name none; "" = see `settle_recorded_on`.
        notes: the notes are appended to this list.
        static_batch: read jobs that grow their batch as if they kept it.
    """
    from dataclasses import replace

    import numpy as np

    from flyball.twin.generate import rescale
    from flyball.twin.inputs.recorded_on import scalings, sentences, settle_recorded_on
    from flyball.twin.inputs.traces import read_trace

    remarks: list[str] = []
    workload = read_trace(path, trace_format, remarks, static_batch)
    if limit_jobs is not None:
        whole_number(limit_jobs, "--limit-jobs", 1, 10**9)
        workload = workload.take(np.arange(min(limit_jobs, len(workload))))
    if not len(workload):
        raise BadInput(f"{path} holds no jobs", "check the file")
    recording = settle_recorded_on(workload, cluster, recorded_on)
    workload = recording.workload
    remarks += [recording.assumption] if recording.assumption else []
    remarks += sentences(scalings(workload, cluster))
    if load is not None:
        if not 0 < load < 1000:
            raise BadInput(f"--load {load} is out of range", "use e.g. 0.9; 1 = the whole cluster")
        workload = rescale(workload, load, cluster.device_count)
    if drop_estimates:
        workload = replace(workload, estimate_us=np.full(len(workload), np.nan))
    for text in remarks:
        note(f"note: {text}")
    if notes is not None:
        notes += remarks
    return workload


def estimate_sigma(estimates: str) -> float:
    """Return the spread of the errors that `exact` or `noisy:SIGMA` asks for."""
    if estimates in ("trace", "exact"):
        return 0.0
    kind, _, text = estimates.partition(":")
    try:
        sigma = float(text)
    except ValueError:
        sigma = -1.0
    if kind != "noisy" or not 0 <= sigma <= 10:
        raise BadInput(
            f"--estimates {estimates!r} is not understood", "use trace, exact or e.g. noisy:0.5"
        )
    return sigma


def _single_seed(seeds: int, notes: list[str]) -> int:
    """Return 1, as more seeds change nothing; explain that if more were requested."""
    if seeds > 1:
        notes.append(
            f"nothing here is random: all {seeds} seeds would give the same, so each policy runs "
            "once and there is no interval; see --estimates noisy:SIGMA and --mtbf-h"
        )
        note(f"note: {notes[-1]}")
    return 1


def _is_random(workload: Workload, effects: Effects) -> bool:
    """Return whether the seed can make a difference."""
    import numpy as np

    noisy: Any = effects.estimate_sigma > 0 and np.isnan(workload.estimate_us).any()
    return bool(noisy) or effects.mtbf_h > 0
