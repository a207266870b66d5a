"""Prints reports of runs as tables, and writes a CSV with a row per job, and a figure."""

from __future__ import annotations

import csv
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from flyball.cli.output import print_table
from flyball.core.units import US_PER_S, duration_text
from flyball.experiments.record_report import NAME, record_lines, record_of_case, record_rows
from flyball.experiments.record_report import percent_text as record_percent
from flyball.experiments.replay import ReplayCase, Run, by_policy, differences
from flyball.experiments.report import (
    CHANGED,
    TIMES,
    USES,
    JobRow,
    bill_metrics,
    bills_title,
    change_text,
    job_rows,
    policy_rows,
    title,
    window_text,
)

TIME_COLUMNS = ("policy", *(metric.heading for metric in TIMES))
USE_COLUMNS = ("policy", *(metric.heading for metric in USES), "run s")
PER_JOB_COLUMNS = (
    "policy",
    "seed",
    "job",
    "submit_s",
    "start_s",
    "end_s",
    "wait_s",
    "devices",
    "gpu_milli",
    "pool",
    "attempts",
    "preemptions",
    "failures",
    "energy_kwh",
    "status",
    "money",
    "carbon_g",
)


def print_runs(runs: Sequence[Run], case: ReplayCase, site_policy: str | None = None) -> None:
    """Print a line per policy (means over the seeds) and, with several seeds, the differences."""
    times, uses = record_rows(case, len(TIME_COLUMNS), len(USE_COLUMNS))
    runs_of = by_policy(runs)
    for row in policy_rows(runs, case):
        of_policy = runs_of[row["policy"]]
        run_s = sum(run.run_s for run in of_policy) / len(of_policy)
        times.append([row["policy"], *(metric.text(row[metric.key]) for metric in TIMES)])
        cells = (metric.text(row[metric.key]) for metric in USES)
        uses.append([row["policy"], *cells, f"{run_s:.3f}"])
    print_table(title(case), TIME_COLUMNS, times)
    print_table(window_text(case), USE_COLUMNS, uses)
    _print_bills(runs, case)
    for line in record_lines(runs, case, site_policy):
        typer.echo(line)
    if case.seeds > 1 and len(case.policies) > 1:
        _print_differences(runs)


def _print_bills(runs: Sequence[Run], case: ReplayCase) -> None:
    """Print money and carbon by policy, if the cluster has a price or a carbon intensity."""
    metrics = bill_metrics(case.cluster)
    if not metrics:
        return
    rows = [
        [policy, *(metric.text(metric.mean(of_policy)) for metric in metrics)]
        for policy, of_policy in by_policy(runs).items()
    ]
    header = ("policy", *(metric.heading for metric in metrics))
    print_table(bills_title(case.cluster), header, rows)


def _print_differences(runs: Sequence[Run]) -> None:
    gaps = differences(runs)
    rows = [[gap["policy"], *(change_text(gap[name]) for name in CHANGED)] for gap in gaps]
    head = f"Change from {gaps[0]['against']} in percent, paired by seed, with a 95 % interval"
    print_table(head, ("policy", *CHANGED.values()), rows)


def print_record(runs: Sequence[Run], case: ReplayCase, site_policy: str | None) -> None:
    """Print the record as a separate table, for reports with other columns."""
    record = record_of_case(case)
    if record is None:
        return
    cells = (
        *(NAME, duration_text(record.completion_s.mean), duration_text(record.wait_s.mean)),
        record_percent(record),
    )
    print_table("What the trace recorded", ("", "completion", "wait", "in use"), [cells])
    for line in record_lines(runs, case, site_policy):
        typer.echo(line)


def write_per_job(path: Path, runs: Sequence[Run], case: ReplayCase) -> None:
    """Write the CSV with a row per policy, seed and job, atomically."""
    from flyball.twin.inputs.traces.files import replacing

    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(PER_JOB_COLUMNS)
        for run in runs:
            writer.writerows(_cells(row) for row in job_rows(run, case))


def _cells(row: JobRow) -> Iterator[object]:
    """Yield the fields of a row as the CSV has them: exact, and empty where there is nothing."""
    for name, value in row._asdict().items():
        if value is None:
            yield ""
        elif name.endswith("_us"):
            yield _seconds(value)
        elif name == "wait_s":
            yield f"{value:.6f}".rstrip("0").rstrip(".")
        elif name in ("energy_kwh", "money", "carbon_g"):
            yield f"{value:.6g}"
        else:
            yield value


def _seconds(microseconds: int) -> str:
    """Format microseconds as seconds, exactly and without trailing zeros."""
    seconds, rest = divmod(microseconds, US_PER_S)
    return f"{seconds}.{rest:06d}".rstrip("0") if rest else str(seconds)


def write_page(path: Path, runs: Sequence[Run], case: ReplayCase, site_policy: str | None) -> None:
    """Write the report as one HTML file, atomically."""
    from flyball.experiments.pages.replay_page import replay_page
    from flyball.twin.inputs.traces.files import replacing

    command = shlex.join(["flyball", *sys.argv[1:]])
    with replacing(path) as out:
        out.write(replay_page(runs, case, command, site_policy))


def write_figure(path: Path, runs: Sequence[Run], title: str) -> None:
    """Write the figure of the first seed's runs, atomically."""
    from flyball.experiments.figures import replay_figure
    from flyball.twin.inputs.traces.files import replacing

    image = replay_figure([run for run in runs if run.seed == 0], title, path.suffix[1:].lower())
    with replacing(path) as out:
        out.buffer.write(image)
