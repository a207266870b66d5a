"""`flyball explain`: explains why jobs wait at an instant of a replay, and what would help."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

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
    from flyball.core.workload import Workload
    from flyball.schedule.explain import Explanation

EXAMPLES = """\b
Examples:
  flyball explain jobs.csv --cluster five-mixed --policy easy --at 6h
  flyball explain jobs.csv --cluster mine.yaml --policy fifo --at 90m --job j42 --verbose
  flyball explain jobs.csv --cluster mine.yaml --policy ect --set hold_s=60 --at 2d --json
\b
Every token is listed in docs/guide/why.md.
"""

COLUMNS = ("job", "devices", "submitted", "token", "why it waits", "what would help")
MAX_COMPARED = 2000
"""In larger workloads, no similar name is suggested for an unknown job."""


def explain(
    trace: TraceFile,
    cluster: ClusterName,
    at: Annotated[
        str, typer.Option(help="Time since the first submission: seconds, or e.g. 90m, 6h, 2d.")
    ],
    policy: Annotated[
        str, typer.Option("--policy", "-p", help="The policy; see `policies`.")
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
    from flyball.app import build_twin, policy_settings, warm
    from flyball.cli.replay.replay import estimate_sigma, read_workload
    from flyball.core.effects import Effects
    from flyball.core.units import to_us
    from flyball.schedule.explain import Names, explain_pending
    from flyball.schedule.explain import explain as explain_one
    from flyball.twin.inputs.cluster_file import load_cluster

    chosen = policy_settings(policy, settings or [])
    if len(chosen) != 1:
        raise BadInput(f"--policy {policy} names {len(chosen)} policies", "name one")
    target = load_cluster(cluster)
    effects = Effects(
        mtbf_h=mtbf_h, repair_h=repair_h, estimate_sigma=estimate_sigma(estimates), seed=seed
    )
    # 2. Read, and run up to the instant.
    workload = read_workload(
        *(trace, trace_format, target, load, limit_jobs, estimates != "trace"),
        *(recorded_on or "", None, static_batch),
    )
    left_out: dict[str, int] = {}
    if skip_unfit:
        from flyball.cli.replay.unfit import without_unfit

        workload, left_out = without_unfit(workload, target, chosen, effects)
    job_index = None if job is None else _index_of(workload, job)
    twin = build_twin(target, workload, chosen[0], effects)
    warm(note)
    _note_compile(twin, mtbf_h > 0)
    twin.run(int(twin.state.clock[0].start_us) + to_us(at_s))
    # 3. Explain.
    names = Names.of(workload.ids.tolist(), target.groups, workload.tenants)
    if job_index is None:
        explanations = explain_pending(twin.state, twin.knobs, names)
    else:
        explanations = [explain_one(twin.state, twin.knobs, job_index, names)]
    # 4. Print.
    if as_json:
        from flyball.cli.replay.report import recording

        head = {"trace": workload.name, "cluster": target.name, "policy": chosen[0].name}
        head |= recording(workload, target) | {"left_out": left_out}
        print_json({**head, **_as_json(explanations, twin, workload, at_s)})
    elif job_index is None:
        _print_all(explanations, twin, workload, at_s, most, "" if verbose else names.unit)
    elif verbose:
        _print_one(explanations[0], twin, workload, names.unit)
    else:
        _print_briefly(explanations, twin, workload, names.unit)


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


def _index_of(workload: Workload, job: str) -> int:
    matches = (workload.ids == job).nonzero()[0]
    if len(matches):
        return int(matches[0])
    ids = workload.ids.tolist()
    if len(ids) <= MAX_COMPARED:
        import difflib

        near = difflib.get_close_matches(job, ids, n=1, cutoff=0.5)
        remedy = f"did you mean {near[0]!r}?" if near else f"its jobs are {ids[0]} to {ids[-1]}"
    else:
        remedy = f"its {len(ids):,} jobs are {ids[0]} to {ids[-1]}"
    raise BadInput(f"{workload.name} has no job {job!r}", remedy)


def _as_json(
    explanations: list[Explanation], twin: Twin, workload: Workload, at_s: float
) -> dict[str, Any]:
    from flyball.core.codes import Status
    from flyball.core.units import to_s

    state, clock = twin.state, twin.state.clock[0]
    rows = [
        {
            "job": str(workload.ids[explanation.job]),
            "devices": int(state.jobs[explanation.job].devices),
            "gpu_milli": int(state.jobs[explanation.job].milli),
            "status": Status(int(state.runs[explanation.job].status)).name.lower(),
            "submit_s": to_s(int(state.jobs[explanation.job].submit_us - clock.start_us)),
            "waits_s": to_s(int(clock.now_us - state.jobs[explanation.job].submit_us)),
            "token": explanation.token,
            "sentence": explanation.sentence,
            "remedy": explanation.remedy,
            "numbers": explanation.numbers,
        }
        for explanation in explanations
    ]
    return {
        "at_s": at_s,
        "decided_s": to_s(int(clock.now_us - clock.start_us)),
        "running": int(clock.running),
        "tokens": dict(Counter(explanation.token for explanation in explanations).most_common()),
        "jobs": rows,
    }


def _print_all(
    explanations: list[Explanation],
    twin: Twin,
    workload: Workload,
    at_s: float,
    most: int,
    unit: str,
) -> None:
    """Print three lines for each of the first jobs; without a unit, a table of all details."""
    from flyball.core.units import duration_text, to_s

    clock = twin.state.clock[0]
    decided_s = to_s(int(clock.now_us - clock.start_us))
    when = f"{duration_text(at_s)} after the first submission"
    if twin.finished:
        typer.echo(f"At {when} nothing waits: the last job ended at {duration_text(decided_s)}.")
        return
    running = f"{int(clock.running):,} running"
    if not explanations:
        typer.echo(f"At {when} nothing waits ({running}).")
        return
    title = f"At {when}: {len(explanations):,} waiting, {running}"
    if unit:
        typer.echo(f"{title}\n")
        _print_briefly(explanations[:most], twin, workload, unit)
        typer.echo()
    else:
        rows = [_cells(explanation, twin, workload) for explanation in explanations[:most]]
        print_table(title, COLUMNS, rows, len(COLUMNS))
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


def _print_briefly(
    explanations: list[Explanation], twin: Twin, workload: Workload, unit: str
) -> None:
    """Print three lines for each job, and how to see what did not fit."""
    from flyball.cli.replay.brief import brief_lines, line_width

    width, cut = line_width(), False
    for explanation in explanations:
        name, _size, submitted, *_rest = _cells(explanation, twin, workload)
        request = f"{_size_text(explanation, twin, unit)}, submitted {submitted}"
        lines = list(brief_lines(explanation, name, request, width))
        cut = cut or lines[1:] != [f"  {explanation.sentence}", f"  {explanation.remedy}"]
        typer.echo("\n".join(lines))
    if cut:
        note("--verbose shows what was left out of these lines")


def _size_text(explanation: Explanation, twin: Twin, unit: str) -> str:
    """Return what the job asks for: `8 GPUs`, `0.25 of a GPU`."""
    from flyball.schedule.explain.wording import gang

    job = twin.state.jobs[explanation.job]
    return gang(int(job.devices), int(job.milli), unit)


def _cells(explanation: Explanation, twin: Twin, workload: Workload) -> tuple[str, ...]:
    from flyball.core.units import duration_text, to_s

    job = twin.state.jobs[explanation.job]
    share = f"{job.devices}" if job.milli == 1000 else f"{job.devices} x {job.milli / 1000:g}"
    waited_s = to_s(twin.now_us - int(job.submit_us))
    submitted = f"{duration_text(waited_s)} ago" if waited_s >= 0 else "not yet"
    name = str(workload.ids[explanation.job])
    return name, share, submitted, explanation.token, explanation.sentence, explanation.remedy


def _print_one(explanation: Explanation, twin: Twin, workload: Workload, unit: str) -> None:
    name, _size, ago, *_rest = _cells(explanation, twin, workload)
    typer.echo(f"{name}: {_size_text(explanation, twin, unit)}, submitted {ago}")
    typer.echo(f"  {explanation.token}: {explanation.sentence}")
    typer.echo(f"  {explanation.remedy}")
