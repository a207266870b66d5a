"""`flyball predict status`: what is used to predict, and how good it has been."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import typer

from flyball.cli.options import AsJson
from flyball.cli.output import print_json, print_table
from flyball.cli.server.live_options import State, clean, connected, count_text
from flyball.core.units import duration_text

EXAMPLES = """\b
Examples:
  flyball predict status
  flyball predict status --json
\b
rMAE: mean absolute error / that of the best naive forecast; below 1 is skill.
In band: part of what came that lay in the 90 % band (p50, p90: kept that edge).
"""

COLUMNS = ("series", "ahead", "model", "best naive", "rMAE", "in band", "n")

Found = Mapping[str, Any]


def status(as_json: AsJson = False, state: State = None) -> None:
    """Say for loads, run times and start times which model is used and how good it has been."""
    with connected(state) as client:
        found = client.forecast()["predictions"]
    if as_json:
        print_json(found)
        return
    if "loads" not in found:
        typer.echo(clean(found.get("note") or "nothing is known yet"))
    else:
        rows = [row for each in found["loads"] for row in load_rows(each)]
        if rows:
            print_table("", COLUMNS, rows, 4)
        for line in lines(found):
            typer.echo(line)
    typer.echo(worker_line(found.get("worker", {})))


def load_rows(series: Found) -> Iterator[tuple[str, ...]]:
    """The lines of one series, one for each time ahead that is followed."""
    for each in series["leads"]:
        yield (
            clean(series["series"]),
            duration_text(each["ahead_s"]),
            clean(each["model"]),
            clean(each["naive"]),
            _number(each["rmae"], "{:.2f}"),
            _number(each["coverage_90"], "{:.0%}"),
            f"{each['n']:,}",
        )


def lines(found: Found) -> Iterator[str]:
    """What does not fit the table, in sentences."""
    for series in found["loads"]:
        about = "; ".join(clean(each) for each in series["drift"])
        told = " ".join(each for each in (clean(series.get("note", "")), about) if each)
        yield f"{clean(series['series'])} ({clean(series['unit'])}): {told or 'no pattern'}"
    runs = found["run_times"]
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
    starts = found["starts"]
    yield (
        f"start times: p50 kept by {_number(starts['coverage_p50'], '{:.0%}')} of "
        f"{starts['n_p50']:,}, p90 by {_number(starts['coverage_p90'], '{:.0%}')} of "
        f"{starts['n_p90']:,}; {count_text(starts['waiting'], 'forecast')} open"
    )


def worker_line(worker: Found) -> str:
    """How the process beside is."""
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
