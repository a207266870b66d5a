"""`flyball predict load`, `backtest` and `record`: forecasts of a series, and their accuracy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.long_run import Resume, end, kept_results
from flyball.cli.options import AsJson
from flyball.cli.output import check_writable, note, print_json, print_table
from flyball.cli.progress import progress
from flyball.core.errors import BadInput
from flyball.core.units import parse_duration_s

if TYPE_CHECKING:
    from flyball.bench.predict.load import Target
    from flyball.core.protocols import Forecast
    from flyball.experiments.part_runs import Outcome
    from flyball.predict.load.ahead import LiveForecast
    from flyball.predict.patterns import Patterns
    from flyball.predict.series import Series

LOAD_EXAMPLES = """\b
Examples:
  flyball predict load rates.csv --column requests --horizon 1h
  flyball predict load tenants.csv.gz --column running --where vc=blue --horizon 6h --figure out.png
  flyball predict load carbon.csv --column gco2 --time time_utc --zone Europe/Berlin --horizon 24h
\b
Words and measures: docs/concept/prediction.md.
"""
BACKTEST_EXAMPLES = """\b
Examples:
  flyball predict backtest mission --json
  flyball predict backtest mission --resume table.jsonl
  flyball predict backtest mine.json --json
\b
A SPEC is JSON: {"file", "column", "horizons": ["10m", "1h"]} and, optionally, "time", "where",
"also", "zone", "step", "test_part" (0.2: the last fifth is the test), "budget" (30s: CPU time for
fitting; neural nets, if installed, join from about 2m on).
"""
RECORD_EXAMPLES = """\b
Examples:
  flyball predict record use.csv.gz --for 5m
  flyball predict record mine.csv --pid 1234 --step 100ms
"""
COST_EXAMPLES = """\b
Examples:
  flyball bench predict
  flyball bench predict --json
"""

ENDINGS = (".png", ".svg", ".pdf")
MISSION = "mission"
SPEC_FIELDS = (
    *("file", "column", "horizons", "time", "where", "also", "zone", "step", "test_part"),
    "budget",
)
SHOWN = 12
"""Maximum number of steps in the table."""


def load(
    file: Annotated[Path, typer.Argument(help="CSV file, plain or .gz.")],
    column: Annotated[str, typer.Option("--column", help="The column to forecast.")],
    horizon: Annotated[str, typer.Option(help="How far ahead: 500ms, 10m, 1h, 2d.")] = "1h",
    time_column: Annotated[
        str | None, typer.Option("--time", help="The column of times. [default: time, t_s, ...]")
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="column=value: only matching rows; may be repeated.")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(help="Interval of the series. [default: the usual one in the file]"),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Leave out rows dated after this date and time.")
    ] = None,
    zone: Annotated[
        str, typer.Option(help="Time zone of daily patterns; times in the file are then UTC.")
    ] = "",
    figure: Annotated[
        Path | None, typer.Option(help="Write a figure: band, past forecasts, past errors.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="CPU time for fitting; neural nets, if installed, join from 60s on.")
    ] = "30s",
    as_json: AsJson = False,
) -> None:
    """Forecast a series with a calibrated band; show the model in use and its accuracy."""
    # 1. Check the options before the long part.
    horizon_s = seconds_of(horizon, "--horizon")
    step_s = None if step is None else seconds_of(step, "--step")
    now_s = None if until is None else _instant(until)
    budget_s = seconds_of(budget, "--budget")
    chosen = dict(_pair(condition) for condition in where or [])
    check_writable(figure, ENDINGS)
    from flyball.predict.load.ahead import LiveForecast
    from flyball.predict.load.table import read_series
    from flyball.predict.patterns import find_patterns

    # 2. Read, fit, forecast.
    series = read_series(file, column, time_column, chosen, step_s, now_s, zone)
    ahead = LiveForecast(series, horizon_s, budget_s=budget_s)
    ahead.fit(series.values)
    forecast = ahead.predict(horizon_s)
    patterns = find_patterns(series)
    # 3. Show.
    if figure is not None:
        from flyball.predict.load.figure import forecast_figure

        figure.write_bytes(forecast_figure(ahead, forecast, figure.suffix[1:].lower()))
    if as_json:
        print_json(_as_json(series, ahead, forecast, patterns))
    else:
        _print(series, ahead, forecast, patterns)


def backtest(
    spec: Annotated[str, typer.Argument(help="`mission`, or a JSON file.")] = MISSION,
    resume: Resume = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Only this part of the table; may be repeated.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. [default: one per core]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Backtest forecasts: skill against the best naive forecast, and coverage of bands."""
    if spec != MISSION:
        from flyball.bench.predict.load import measure

        _show(measure(*_target(Path(spec)), note), None, as_json)
        return
    from flyball.bench.predict.mission import PARTS, run
    from flyball.experiments.workers import usable_cores

    with kept_results(resume, "backtest") as runs:
        with progress("measuring", len(only or PARTS), as_json) as advance:
            outcome = run(note, runs, only or (), workers or usable_cores(), advance)
        _show(outcome.rows, outcome, as_json)
        end(outcome)


def _show(rows: list[dict[str, Any]], outcome: Outcome | None, as_json: bool) -> None:
    """Print the rows; in JSON also the parts that were not run."""
    if as_json:
        print_json({"rows": rows, "not_run": [] if outcome is None else outcome.missing()})
    else:
        print_rows(rows)


def record(
    out: Annotated[Path, typer.Argument(help="CSV file to write, .csv or .csv.gz.")],
    workload: Annotated[
        list[str] | None,
        typer.Option(help="bursty or iterative; may be repeated. [default: both]"),
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Record this process instead.")] = None,
    duration: Annotated[str, typer.Option("--for", help="Duration of each recording.")] = "5m",
    step: Annotated[str, typer.Option(help="Interval between readings, 10ms or more.")] = "50ms",
    seed: Annotated[int, typer.Option(help="Seed of the random lengths.")] = 1,
) -> None:
    """Record how much of a core a process uses, from a nanosecond counter."""
    from flyball.predict.load.record import card_of, use_of, write
    from flyball.predict.load.record import record as run_workloads
    from flyball.predict.load.workloads import KINDS

    check_writable(out, (".csv", ".gz"))
    seconds, step_s = seconds_of(duration, "--for"), seconds_of(step, "--step")
    if pid is None:
        rows = run_workloads(workload or list(KINDS), seconds, step_s, seed, note)
    else:
        rows = [(f"pid {pid}", *reading) for reading in use_of(pid, seconds, step_s)]
    card = write(out, rows, card_of(rows, seconds, step_s, seed))
    typer.echo(f"{len(rows):,} rows in {out}, their description in {card}")


def cost(
    only: Annotated[
        list[str] | None, typer.Option("--only", help="`series` or `fits`; may be repeated.")
    ] = None,
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU time of load forecasts: a cluster's series once a minute, growth, fits."""
    from flyball.bench.predict.cost import PARTS, run

    with kept_results(resume, "predict") as runs:
        with progress("measuring", len(only or PARTS), as_json) as advance:
            outcome = run(note, runs, only or (), advance)
        _show(outcome.rows, outcome, as_json)
        end(outcome)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print a table of measured rows, each with its bar."""
    from flyball.bench.figure import figure_of
    from flyball.cli.bench.figures import print_figures

    figures = [
        figure_of(
            row,
            "metric",
            (row["target"], row["horizon"], _baseline_text(row["baseline"]), f"{row['n']:,}"),
        )
        for row in rows
    ]
    print_figures("", figures, ("target", "ahead", "baseline", "n"))


def seconds_of(text: str, option: str) -> float:
    """Return `500ms`, `10m`, `1.5h`, `2d` or plain seconds, in seconds.

    Raises:
        BadInput: anything else, or not above zero.
    """
    value = parse_duration_s(text)
    if not 0 < value < 1e10:
        raise BadInput(f"{option} {text!r} is not a time", "use e.g. 500ms, 10m, 1h, 2d")
    return value


def _instant(text: str) -> float:
    from flyball.predict.load.table import time_of

    value = time_of(text)
    if not math.isfinite(value):
        raise BadInput(f"--until {text!r} is not a time", "use e.g. 2020-08-01T12:00")
    return value


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadInput(f"--where {text!r}", "use column=value")
    return name, value


# A user's back-test -------------------------------------------------------------


def _target(path: Path) -> tuple[str, Target]:
    """Return the name and the target that a SPEC file describes."""
    values = _json_of(path)
    unknown = sorted(set(values) - set(SPEC_FIELDS))
    if unknown or not {"file", "column", "horizons"} <= set(values):
        wrong = f"unknown {unknown[0]!r}" if unknown else "file, column and horizons are needed"
        raise BadInput(f"{path}: {wrong}", f"known: {', '.join(SPEC_FIELDS)}")
    part = values.get("test_part", 0.2)
    if not isinstance(part, int | float) or not 0 < part <= 0.5:
        raise BadInput(f"{path}: test_part {part!r}", "use a number above 0, at most 0.5")
    horizons = tuple(seconds_of(str(value), "horizons") for value in values["horizons"])
    if not horizons:
        raise BadInput(f"{path}: no horizons", 'use e.g. "horizons": ["10m", "1h"]')
    from flyball.bench.predict.load import Target, parts
    from flyball.predict.load.registry import candidates
    from flyball.predict.load.table import read_series

    step = values.get("step")
    series = read_series(
        path.parent / str(values["file"]),
        str(values["column"]),
        values.get("time"),
        {str(name): str(value) for name, value in values.get("where", {}).items()},
        None if step is None else seconds_of(str(step), "step"),
        zone=str(values.get("zone", "")),
        also=[str(value) for value in values.get("also", [])],
    )
    bars = {"rMAE": (math.nan,) * len(horizons)}
    budget_s = seconds_of(str(values.get("budget", "30s")), "budget")
    chosen = tuple(candidates([series], len(horizons), budget_s, fits=2))
    return series.name, Target([series].copy, horizons, parts(float(part)), bars, chosen=chosen)


def _json_of(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {error}", f"name a JSON file, or {MISSION!r}") from error
    if not isinstance(values, dict):
        raise BadInput(f"{path}: not a JSON object", "see `flyball predict backtest --help`")
    return values


def _baseline_text(baseline: Any) -> str:
    if baseline is None:
        return ""
    return baseline if isinstance(baseline, str) else f"{baseline:.4g}"


# One forecast ------------------------------------------------------------------


def _as_json(
    series: Series, ahead: LiveForecast, forecast: Forecast, patterns: Patterns
) -> dict[str, Any]:
    from dataclasses import asdict

    first = series.start_s + len(series) * series.step_s
    return {
        "series": series.name,
        "step_s": series.step_s,
        "points": len(series),
        "notes": [*series.notes, *ahead.notes],
        "patterns": asdict(patterns),
        "skill": [skill._asdict() for skill in ahead.skill()],
        "levels": list(forecast.levels),
        "times_s": [first + index * series.step_s for index in range(len(forecast.mean))],
        "mean": forecast.mean.tolist(),
        "quantiles": forecast.quantiles.tolist(),
    }


def _print(series: Series, ahead: LiveForecast, forecast: Forecast, patterns: Patterns) -> None:
    from flyball.core.units import duration_text

    for line in (*series.notes, *ahead.notes):
        note(line)
    count = len(forecast.mean)
    steps = sorted({round(1 + index * (count - 1) / (SHOWN - 1)) for index in range(SHOWN)})
    rows = []
    for at in steps:
        low, middle, high = (forecast.quantiles[level, at - 1] for level in (0, 3, 6))
        numbers = (middle, forecast.mean[at - 1], low, high)
        rows.append((duration_text(at * series.step_s), *(f"{value:.4g}" for value in numbers)))
    title = f"{series.name}: {len(series):,} points every {duration_text(series.step_s)}"
    print_table(title, ("ahead", "median", "mean", "5 %", "95 %"), rows)
    done = [
        (
            duration_text(skill.lead_s),
            skill.model,
            skill.naive,
            f"{skill.rmae:.2f}",
            f"{skill.coverage:.1f}",
            f"{skill.n:,}",
        )
        for skill in ahead.skill()
    ]
    if done:
        header = ("ahead", "model", "best naive", "rMAE", "band holds %", "checks")
        print_table("Accuracy on the last part of the file", header, done, 3)
    typer.echo("Patterns: " + "; ".join(patterns.sentences(series.step_s)) + ".")
