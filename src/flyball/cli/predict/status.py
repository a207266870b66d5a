"""`flyball predict status`: shows the models in use, and how accurate they have been."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from flyball.cli.formats import clean, count_text
from flyball.cli.live import State, connected
from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table
from flyball.core.units import duration_text

EXAMPLES = """\b
Examples:
  flyball predict status
  flyball predict status --json
\b
rMAE: mean absolute error / that of the best naive forecast; below 1 is better.
In band: fraction of outcomes within the 90 % band (p50, p90: at most that quantile).
"""

COLUMNS = ("series", "ahead", "model", "best naive", "rMAE", "in band", "n")

Report = Mapping[str, Any]


def status(as_json: AsJson = False, state: State = None) -> None:
    """Show which models predict loads, run times and start times, and how accurate they are."""
    with connected(state) as client:
        report = client.forecast()["predictions"]
    if as_json:
        print_json(report)
        return
    if "loads" not in report:
        typer.echo(clean(report.get("note") or "nothing is known yet"))
    else:
        rows = [row for series in report["loads"] for row in load_rows(series)]
        if rows:
            print_table("", COLUMNS, rows, 4)
        for line in lines(report):
            typer.echo(line)
    typer.echo(worker_line(report.get("worker", {})))


def load_rows(series: Report) -> Iterator[tuple[str, ...]]:
    """Yield the rows of one series, one per lead time."""
    for lead in series["leads"]:
        yield (
            clean(series["series"]),
            duration_text(lead["ahead_s"]),
            clean(lead["model"]),
            clean(lead["naive"]),
            _number(lead["rmae"], "{:.2f}"),
            _number(lead["coverage_90"], "{:.0%}"),
            f"{lead['n']:,}",
        )


def lines(report: Report) -> Iterator[str]:
    """Yield sentences on what does not fit the table."""
    for series in report["loads"]:
        drift = "; ".join(clean(sentence) for sentence in series["drift"])
        remark = " ".join(
            sentence for sentence in (clean(series.get("note", "")), drift) if sentence
        )
        yield f"{clean(series['series'])} ({clean(series['unit'])}): {remark or 'no pattern'}"
    runs = report["run_times"]
    yield (
        f"run times: {clean(runs['model'])}, learnt from {count_text(runs['learnt'], 'job')}; "
        f"of {runs['n']:,} predictions: median error a factor of "
        f"{_number(_factor(runs['median_abs_log_error']), '{:.2f}')}, "
        f"within 2x {_number(runs['within_2x'], '{:.0%}')}, "
        f"in band {_number(runs['coverage_90'], '{:.0%}')}"
    )
    for note in (runs.get("note"), runs.get("fit_error")):
        if note:
            yield f"  {clean(note)}"
    starts = report["starts"]
    yield (
        f"start times: p50 kept by {_number(starts['coverage_p50'], '{:.0%}')} of "
        f"{starts['n_p50']:,}, p90 by {_number(starts['coverage_p90'], '{:.0%}')} of "
        f"{starts['n_p90']:,}; {count_text(starts['waiting'], 'forecast')} open"
    )


def worker_line(worker: Report) -> str:
    """Return a line on the state of the worker process."""
    if not worker:
        return "worker: none"
    how = "runs" if worker["alive"] else "does not run"
    again = f", started {worker['starts']} times" if worker["starts"] > 1 else ""
    end = f"; the last one {clean(worker['last_end'])}" if worker["last_end"] else ""
    return f"worker: {how}{again}{end}"


def _factor(log_error: float | None) -> float | None:
    return None if log_error is None else math.exp(log_error)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
