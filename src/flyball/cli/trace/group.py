"""`flyball trace`: describes, converts, generates and exports traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.lazy import LazyGroup, Part
from flyball.cli.options import AsJson, StaticBatch, TraceFormat, WrittenFormat
from flyball.cli.output import check_writable, note, print_json, print_table
from flyball.core.errors import BadInput
from flyball.core.units import US_PER_S, duration_text

if TYPE_CHECKING:
    from flyball.core.workload import Workload

PARTS = {"export": Part("trace.export:export", "Write the jobs that ran here as a trace.")}


class Trace(LazyGroup):
    """Adds the command that is in another module."""

    parts = PARTS


app = typer.Typer(
    help="Describe, convert, generate and export traces.",
    cls=Trace,
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    epilog="""\b
Examples:
  flyball trace describe jobs.csv.gz
  flyball trace describe sacct.txt
  flyball trace describe jobs.swf --json
"""
)
def describe(
    trace: Annotated[Path, typer.Argument(help="Trace file.")],
    trace_format: TraceFormat = None,
    static_batch: StaticBatch = False,
    as_json: AsJson = False,
) -> None:
    """Describe a trace: arrivals, run times, sizes, workload classes, tenants."""
    from flyball.twin.inputs.traces import read_trace
    from flyball.twin.inputs.traces.describe import describe as describe_workload

    notes: list[str] = []
    workload = read_trace(trace, trace_format, notes, static_batch)
    facts = describe_workload(workload)
    for remark in notes:
        note(f"note: {remark}")
    if as_json:
        print_json(facts)
    else:
        from flyball.cli.trace.report import print_description

        print_description(facts, _unit_of(workload))


def _unit_of(workload: Workload) -> str:
    """Return `GPU` if every device type that the trace names is one, else `device`."""
    from flyball.physics import catalogue
    from flyball.twin.inputs.recorded_on import recorded_counts

    kinds = {catalogue.get(name).kind for name in recorded_counts(workload)}
    return "GPU" if kinds == {"gpu"} else "device"


@app.command(
    epilog="""\b
Examples:
  flyball trace convert jobs.swf jobs.csv.gz
  flyball trace convert philly.csv jobs.swf --to swf
  flyball trace convert pods.jsonl jobs.csv --format kubernetes
"""
)
def convert(
    trace: Annotated[Path, typer.Argument(help="Trace file to read.")],
    out: Annotated[Path, typer.Argument(help="File to write; .gz is compressed.")],
    trace_format: TraceFormat = None,
    static_batch: StaticBatch = False,
    to: WrittenFormat = None,
) -> None:
    """Read a trace in one format and write it in another."""
    check_writable(out)
    from flyball.twin.inputs.traces import read_trace, write_trace

    notes: list[str] = []
    workload = read_trace(trace, trace_format, notes, static_batch)
    write_trace(workload, out, to)
    for remark in notes:
        note(f"note: {remark}")
    note(f"wrote {len(workload)} jobs to {out}")


@app.command(
    epilog="""\b
Examples:
  flyball trace generate mixed week.csv --days 7 --devices 40 --load 0.8
  flyball trace generate helios-like month.csv.gz --days 30 --seed 3
  flyball trace generate --compare philly-like
"""
)
def generate(
    preset: Annotated[str, typer.Argument(help="mixed, philly-like or helios-like.")],
    out: Annotated[
        Path | None, typer.Argument(help="File to write; .gz is compressed.", show_default=False)
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Compare the preset with the real data; write no file."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --compare: JSON on stdout.")
    ] = False,
    days: Annotated[float, typer.Option(help="Days over which jobs arrive, at any load.")] = 7.0,
    seed: Annotated[int, typer.Option(help="Seed; the same seed gives the same trace.")] = 0,
    devices: Annotated[
        int, typer.Option(help="Number of GPUs of the cluster it is meant for.")
    ] = 64,
    load: Annotated[
        float, typer.Option(help="Offered load on those GPUs; it sets the number of jobs.")
    ] = 0.9,
    to: WrittenFormat = None,
) -> None:
    """Generate a trace with the statistics of a real cluster's."""
    if compare:
        _compare(preset, as_json)
        return
    if out is None:
        raise BadInput("no file to write", "name one, e.g. week.csv, or use --compare")
    check_writable(out)
    from flyball.twin.generate import generate as make
    from flyball.twin.inputs.traces import write_trace

    workload = make(preset, seed=seed, days=days, devices=devices, load=load)
    write_trace(workload, out, to)
    span = duration_text(workload.span_us / US_PER_S)
    note(f"wrote {len(workload)} jobs over {span} to {out}: load {load:g} on {devices} GPUs")


def _compare(preset: str, as_json: bool) -> None:
    """Print real and generated statistics side by side."""
    from dataclasses import asdict

    from flyball.twin.generate.compare import compare_with_data

    rows = compare_with_data(preset)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    cells = [
        (
            row.figure,
            f"{row.measured:,.4g}",
            f"{row.generated:,.4g}",
            f"{row.low:,.4g} .. {row.high:,.4g}",
            row.tolerance,
            "yes" if row.close else "NO",
        )
        for row in rows
    ]
    header = ("figure", "measured", "generated", "over the seeds", "tolerance", "close")
    print_table(f"{preset} against the data it is fitted to, seeds 0 to 4", header, cells)
