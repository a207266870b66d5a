"""`flyball explain`: explains why jobs wait at an instant of a replay, and what would help."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.options import (
    AsJson,
    ClusterName,
    Estimates,
    FirstJobs,
    Load,
    MtbfHours,
    RecordedOn,
    RepairHours,
    SkipUnfit,
    StaticBatch,
    TraceFile,
    TraceFormat,
)
from flyball.cli.output import note, print_json, print_table, whole_number
from flyball.core.errors import BadInput
from flyball.core.units import parse_duration_s

if TYPE_CHECKING:
    from flyball.app import Twin
    from flyball.experiments.explain import Stopped
    from flyball.schedule.explain import Explanation

EXAMPLES = """\b
Examples:
  flyball explain jobs.csv --cluster five-mixed --policy easy --at 6h
  flyball explain jobs.csv --cluster mine.yaml --policy fifo --at 90m --job j42 --verbose
  flyball explain jobs.csv --cluster mine.yaml --policy ect --set hold_s=60 --at 2d --json
  flyball explain jobs.csv --cluster mine.yaml --policy mypolicy.py --at 6h
\b
Every token is listed in docs/guide/why.md.
"""

COLUMNS = ("job", "devices", "submitted", "token", "why it waits", "what would help")


def explain(
    trace: TraceFile,
    cluster: ClusterName,
    at: Annotated[
        str, typer.Option(help="Time since the first submission: seconds, or e.g. 90m, 6h, 2d.")
    ],
    policy: Annotated[
        str,
        typer.Option(
            "--policy", "-p", help="The policy: a name, see `policies`; or FILE.py, module:NAME."
        ),
    ] = "easy",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="knob=value; may be repeated.")
    ] = None,
    job: Annotated[str | None, typer.Option(help="Only this job, whatever its state.")] = None,
    most: Annotated[int, typer.Option("--most", help="Maximum number of jobs shown.")] = 20,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show all details, not just three lines per job."),
    ] = False,
    as_json: AsJson = False,
    estimates: Estimates = "trace",
    mtbf_h: MtbfHours = 0.0,
    repair_h: RepairHours = 4.0,
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0,
    recorded_on: RecordedOn = None,
    load: Load = None,
    limit_jobs: FirstJobs = None,
    trace_format: TraceFormat = None,
    static_batch: StaticBatch = False,
    skip_unfit: SkipUnfit = False,
) -> None:
    """Stop a replay at an instant; explain why each waiting job waits and what would help."""
    # 1. Check the options before the long part.
    at_s = seconds_of(at)
    whole_number(most, "--most", 1, 1_000_000)
    whole_number(seed, "--seed", 0, 1_000_000)
    from flyball.app import build_twin, warm
    from flyball.core.effects import Effects
    from flyball.experiments.explain import job_index, stop
    from flyball.experiments.own_policy.settings import named_policies
    from flyball.experiments.report import recording
    from flyball.experiments.request import Reading, read_workload
    from flyball.experiments.unfit import fitting
    from flyball.twin.inputs.cluster_file import load_cluster

    chosen = named_policies(policy, settings or [])
    if len(chosen) != 1:
        raise BadInput(f"--policy {policy} names {len(chosen)} policies", "name one")
    target = load_cluster(cluster)
    reading = Reading(trace_format, load, limit_jobs, estimates, recorded_on or "", static_batch)
    effects = Effects(
        mtbf_h=mtbf_h, repair_h=repair_h, estimate_sigma=reading.estimate_sigma, seed=seed
    )
    # 2. Read, and run up to the instant.
    notes: list[str] = []
    workload = read_workload(trace, target, reading, notes)
    left_out: dict[str, int] = {}
    if skip_unfit:
        result = fitting(workload, target, chosen, effects)
        workload, left_out = result
        notes += [result.text] if result.text else []
    for text in notes:
        note(f"note: {text}")
    index = None if job is None else job_index(workload, job)
    twin = build_twin(target, workload, chosen[0], effects)
    warm(note)
    _note_compile(twin, mtbf_h > 0)
    with redirect_stdout(sys.stderr):  # what the user's own policy prints
        stopped = stop(twin, target, workload, chosen[0], at_s)
    # 3. Explain.
    explanations = stopped.explain(index)
    # 4. Print.
    if as_json:
        head = {"trace": workload.name, "cluster": target.name, "policy": chosen[0].name}
        head |= recording(workload, target) | {"left_out": left_out}
        print_json({**head, **stopped.as_dict(explanations)})
    elif index is None:
        _print_all(explanations, stopped, most, verbose)
    elif verbose:
        _print_one(explanations[0], stopped)
    else:
        _print_briefly(explanations, stopped)


def _note_compile(twin: Twin, with_failures: bool) -> None:
    """Print a note if the kernels that explain must be compiled first."""
    from flyball.core.knobs import Preempt
    from flyball.physics.compile import cache_folder

    kernels = ["find_now"]
    if twin.knobs.preempt == Preempt.ROUNDS or with_failures:
        kernels.append("decide_snapshot")
    if not all(any(cache_folder().rglob(f"*.{kernel}-*.nbi")) for kernel in kernels):
        note("compiling the kernels that explain (first run only, about 10 s)")


def seconds_of(text: str) -> float:
    """Return `3600`, `90m`, `1.5h`, `2d` in seconds.

    Raises:
        BadInput: anything else.
    """
    value = parse_duration_s(text)
    if not 0 <= value < 1e12:
        raise BadInput(f"--at {text!r} is not a time", "use seconds, or e.g. 90m, 6h, 2d")
    return value


def _print_all(explanations: list[Explanation], stopped: Stopped, most: int, verbose: bool) -> None:
    """Print three lines for each of the first jobs; with `verbose`, a table of all details."""
    from flyball.core.units import duration_text

    at_s, decided_s = stopped.at_s, stopped.decided_s
    when = f"{duration_text(at_s)} after the first submission"
    if stopped.twin.finished:
        typer.echo(f"At {when} nothing waits: the last job ended at {duration_text(decided_s)}.")
        return
    running = f"{int(stopped.twin.state.clock[0].running):,} running"
    if not explanations:
        typer.echo(f"At {when} nothing waits ({running}).")
        return
    title = f"At {when}: {len(explanations):,} waiting, {running}"
    if verbose:
        rows = [_cells(explanation, stopped) for explanation in explanations[:most]]
        print_table(title, COLUMNS, rows, len(COLUMNS))
    else:
        typer.echo(f"{title}\n")
        _print_briefly(explanations[:most], stopped)
        typer.echo()
    tokens = ", ".join(
        f"{count:,} {token}"
        for token, count in Counter(e.token for e in explanations).most_common()
    )
    typer.echo(f"Reasons: {tokens}.")
    if at_s > decided_s:
        ago = duration_text(at_s - decided_s)
        typer.echo(f"Times count from the last decision, {ago} before that.")
    if len(explanations) > most:
        typer.echo(f"The first {most} in the queue's order; --most {len(explanations)} shows all.")


def _print_briefly(explanations: list[Explanation], stopped: Stopped) -> None:
    """Print three lines for each job, and how to see what did not fit."""
    from flyball.cli.replay.brief import brief_lines, line_width

    width, cut = line_width(), False
    for explanation in explanations:
        name, submitted = _name(explanation, stopped), stopped.submitted_text(explanation.job)
        request = f"{stopped.request_text(explanation.job)}, submitted {submitted}"
        lines = list(brief_lines(explanation, name, request, width))
        cut = cut or lines[1:] != [f"  {explanation.sentence}", f"  {explanation.remedy}"]
        typer.echo("\n".join(lines))
    if cut:
        note("--verbose shows what was left out of these lines")


def _name(explanation: Explanation, stopped: Stopped) -> str:
    return str(stopped.workload.ids[explanation.job])


def _cells(explanation: Explanation, stopped: Stopped) -> tuple[str, ...]:
    job = stopped.twin.state.jobs[explanation.job]
    share = f"{job.devices}" if job.milli == 1000 else f"{job.devices} x {job.milli / 1000:g}"
    head = (_name(explanation, stopped), share, stopped.submitted_text(explanation.job))
    return *head, explanation.token, explanation.sentence, explanation.remedy


def _print_one(explanation: Explanation, stopped: Stopped) -> None:
    name, ago = _name(explanation, stopped), stopped.submitted_text(explanation.job)
    typer.echo(f"{name}: {stopped.request_text(explanation.job)}, submitted {ago}")
    typer.echo(f"  {explanation.token}: {explanation.sentence}")
    typer.echo(f"  {explanation.remedy}")
