"""`flyball predict runtime` and `flyball predict demand`: run times, and demand on a device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.options import AsJson, TraceFile
from flyball.cli.output import (
    check_writable,
    note,
    print_json,
    print_table,
    whole_number,
)
from flyball.cli.progress import progress
from flyball.core.errors import BadInput, UnknownName

if TYPE_CHECKING:
    from flyball.predict.demand.describe import Demand

RUNTIME_EXAMPLES = """\b
Examples:
  flyball predict runtime jobs.csv.gz --backtest
  flyball predict runtime jobs.csv.gz --backtest --test-days 7 --json
  flyball predict runtime jobs.csv.gz --save models/runtime
"""
DEMAND_EXAMPLES = """\b
Examples:
  flyball predict demand one --device A100 --set model_type=transformer --set parameters=1.1e8
  flyball predict demand fit models/demand
  flyball predict demand compare --task memory
  flyball predict demand compare --task own-step --splits 10 --method flyball
  flyball predict demand measure steps.csv --rows 720
"""

demand = typer.Typer(
    help="Predict operations, step time, memory and utilisation of a job.", no_args_is_help=True
)
Tasks = Annotated[
    list[str] | None, typer.Option("--task", help="Only this task; may be repeated. [default: all]")
]
FIELDS = (
    *("model_type", "parameters", "batch_size", "input_size", "layers", "iterations"),
    *("precision", "optimizer", "regularization", "augmentation", "learning_rate", "model"),
)
"""Fields of a job's description; some are accepted but have no effect."""


def runtime(
    trace: TraceFile,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Predict the last days as if live; show the errors.")
    ] = False,
    test_days: Annotated[int, typer.Option(help="Days at the end of the trace to test on.")] = 20,
    save: Annotated[
        Path | None, typer.Option(help="Fit on the whole trace and write the model here.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict how long jobs run, from jobs that ended before each was submitted."""
    whole_number(test_days, "--test-days", 1, 10_000)
    if backtest == (save is not None):
        raise BadInput(
            "--backtest or --save is needed", "use exactly one of --backtest, --save FOLDER"
        )
    if save is not None:
        _save(trace, save, as_json)
        return
    from flyball.bench.predict.jobs import runtime as run

    result = run(trace, test_days, note)
    if as_json:
        print_json(result)
        return
    title = f"{result['trace']}: run times of {result['jobs']:,} jobs of the last {test_days} days"
    print_table(title, ("metric", "value", "bar", "best plain", "holds"), _cells(result["rows"]))
    losses = [(level, f"{loss:.4f}") for level, loss in result["pinball"].items()]
    print_table("Pinball loss of the log run time", ("quantile", "loss"), losses)
    band = result["figures"]["flyball"]["band_factor"]
    typer.echo(f"The upper edge of the median band is {band:.0f} times the lower one.")


def _save(trace: Path, folder: Path, as_json: bool) -> None:
    from flyball.predict.runtime.estimator import RunTimes
    from flyball.predict.runtime.rows import rows_of
    from flyball.twin.inputs.traces import read_trace

    rows = rows_of(read_trace(trace, None, []))
    estimator = RunTimes()
    estimator.fit(rows)
    estimator.save(folder)
    if as_json:
        print_json({"folder": str(folder), "jobs": len(rows), "trees": len(estimator.trees.models)})
    else:
        typer.echo(f"Fitted on {len(rows):,} jobs; written to {folder}.")


@demand.command("one", epilog=DEMAND_EXAMPLES)
def demand_one(
    device: Annotated[str, typer.Option(help="Device type; see `devices`.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", help=f"field=value of: {', '.join(FIELDS)}.")
    ] = None,
    devices: Annotated[int, typer.Option(help="Devices in the gang; they share the batch.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Estimate one job from its description; missing fields make the band wider."""
    whole_number(devices, "--devices", 1, 100_000)
    from flyball.predict.demand.describe import one

    estimated = one(_description(settings or []), device, devices)
    if as_json:
        print_json(_as_json(estimated))
        return
    rows = [
        (
            name,
            f"{estimate.value:.4g}",
            f"{estimate.low:.4g}",
            f"{estimate.high:.4g}",
            estimate.basis,
        )
        for name, estimate in _estimates(estimated).items()
    ]
    header = ("what", "where it comes from", "estimate", "low", "high")
    print_table("", header, [(row[0], row[4], *row[1:4]) for row in rows], 2)
    for remark in estimated.remarks:
        typer.echo(f"Note: {remark}.")


@demand.command("fit")
def demand_fit(
    folder: Annotated[Path, typer.Argument(help="Folder to write the models to.")],
    tasks: Tasks = None,
    as_json: AsJson = False,
) -> None:
    """Fit the demand models on the shared measurements and save them with their cards."""
    from flyball.bench.predict.jobs import fit

    result = fit(folder, _tasks(tasks), note)
    if as_json:
        print_json(result)
        return
    rows = [
        (name, fitted["chosen"], f"{fitted['rows']:,}", f"{fitted['errors'][fitted['chosen']]:.1%}")
        for name, fitted in result.items()
    ]
    print_table("", ("model", "on the formula", "rows", "error, held out"), rows, 2)


@demand.command("compare")
def demand_compare(
    tasks: Tasks = None,
    splits: Annotated[
        int, typer.Option(help="Random 70/30 splits; 0 = three, and ten for our own set.")
    ] = 0,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="Only this method, on our own set; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare our method with others, on shared measurements and on our own set.

    On our own set (own-step, own-memory), the others are BiGRU and Transformer, ExtraTrees,
    CatBoost, XGBoost and LightGBM, if installed; elsewhere the formula alone, ridge, LightGBM
    and ExtraTrees.
    """
    whole_number(splits, "--splits", 0, 100)
    from flyball.bench.predict.jobs import OWN, compare, own_compare
    from flyball.experiments.demand.own_compare import METHODS, SEEDS, check
    from flyball.experiments.demand.tasks import SPLITS

    names = _tasks(tasks)
    own_targets = [name.removeprefix(OWN) for name in names if name.startswith(OWN)]
    for method in methods or ():
        check(method, "step")
    shared = [name for name in names if not name.startswith(OWN)]
    first, count = SPLITS[0], splits or len(SPLITS)
    seeds = range(SEEDS[0], SEEDS[0] + (splits or len(SEEDS)))
    rows = compare(shared, range(first, first + count), note) if shared else []
    own_result = own_compare(own_targets, seeds, methods or METHODS, note) if own_targets else {}
    if as_json:
        print_json({"rows": rows, "own": own_result})
        return
    if rows:
        header = ("task", "method", "mean error", "median", "bar", "test rows")
        print_table("", header, _shared_cells(rows), 2)
    if own_result:
        _print_own(own_result)


def _shared_cells(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (row["task"], row["method"], "not installed", "", "", "")
        if "absent" in row
        else (
            row["task"],
            row["method"],
            f"{row['mape']:.1%}",
            f"{row['median']:.1%}",
            f"{row['bar']:.0%}",
            f"{row['n']:,}",
        )
        for row in rows
    ]


def _print_own(result: dict[str, Any]) -> None:
    """Print both tables of our own set, published results, and the best methods."""
    header = ("task", "method", "MSE", "RMSE", "MAE", "MAPE", "R2", "+-", "band covers")
    for title, key in (
        ("Our own set, random 70/30 (errors of logarithms; MAPE of values)", "random"),
        ("Our own set, each type of model estimated from the others", "unseen_type"),
    ):
        print_table(title, header, [_own_cells(row) for row in result[key]], 2)
    published = [
        (name, *(f"{row[part]:g}" if part in row else "" for part in ("mse", "rmse", "mae", "r2")))
        for name, row in result["published"].items()
    ]
    title = "Published for 517 rows that are not public: another set, another target"
    print_table(title, ("method", "MSE", "RMSE", "MAE", "R2"), published)
    for task, best in result["best"].items():
        for columns, method in best.items():
            typer.echo(f"{task}, {columns}: best is {method}.")


def _own_cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "absent" in row:
        return (row["task"], row["method"], *([""] * 4), "not installed", "", "")
    band = row["coverage"]
    return (
        row["task"],
        row["method"],
        *(f"{row[part]:.3f}" for part in ("mse", "rmse", "mae")),
        f"{row['mape']:.1%}",
        f"{row['r2']:.3f}",
        f"{row['r2_interval']:.3f}" if "r2_interval" in row else "",
        "" if band is None else f"{band:.0%}",
    )


@demand.command("measure")
def demand_measure(
    out: Annotated[
        Path, typer.Argument(help="Table to write (.csv); its card is written next to it.")
    ],
    rows: Annotated[int, typer.Option(help="Nets to measure.")] = 720,
    seed: Annotated[int, typer.Option(help="Seed of the random nets.")] = 1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue after the rows that the table has.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Measure training steps of real torch models on one core of this machine."""
    whole_number(rows, "--rows", 1, 100_000)
    whole_number(seed, "--seed", 0, 2**31 - 1)
    check_writable(out, (".csv",))
    from datetime import date

    from flyball.predict.demand.measure import measure

    with progress("measuring", rows, as_json) as done:
        count = measure(out, rows, seed, date.today().isoformat(), resume, done)
    if as_json:
        print_json({"table": str(out), "card": str(out.with_suffix(".json")), "measured": count})
    else:
        typer.echo(f"Measured {count:,} steps; {out} has {rows:,} rows.")


def _tasks(names: list[str] | None) -> list[str]:
    from flyball.bench.predict.jobs import OWN
    from flyball.experiments.demand.tasks import TASKS
    from flyball.predict.demand.own_steps import TARGETS

    valid = [*TASKS, *(f"{OWN}{target}" for target in TARGETS)]
    for name in names or ():
        if name not in valid:
            raise UnknownName("demand task", name, valid)
    return names or valid


def _description(settings: list[str]) -> dict[str, object]:
    """Return the description that `field=value` pairs make up.

    Raises:
        BadInput: no `=`, or an unknown field.
    """
    description: dict[str, object] = {}
    for setting in settings:
        field, sign, value = setting.partition("=")
        if not sign or field not in FIELDS:
            raise BadInput(f"--set {setting!r}", f"use field=value with one of {', '.join(FIELDS)}")
        description[field] = value
    return description


def _estimates(estimated: Demand) -> dict[str, Any]:
    estimates = {
        "flops": estimated.flops,
        "step_s": estimated.step_s,
        "memory_mib": estimated.memory_mib,
        "utilisation": estimated.utilisation,
        "run_s": estimated.run_s,
    }
    return {name: estimate for name, estimate in estimates.items() if estimate is not None}


def _as_json(estimated: Demand) -> dict[str, Any]:
    values = {name: estimate._asdict() for name, estimate in _estimates(estimated).items()}
    return {**values, "remarks": list(estimated.remarks)}


def _cells(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            row["metric"],
            f"{row['value']:.3f}",
            " to ".join(f"{edge:g}" for edge in row["bar"])
            if isinstance(row["bar"], list)
            else f"{row['bar']:g}",
            "" if row["baseline"] is None else f"{row['baseline']:.3f}",
            "yes" if row["holds"] else "NO",
        )
        for row in rows
    ]
