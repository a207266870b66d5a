"""`flyball predict`: predicts load, run times, and what a job demands of a device."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "status": Part(
        "predict.status:status",
        "Show which models predict loads, run times and start times, and how accurate they are.",
    ),
    "load": Part(
        "predict.load:load",
        "Forecast a series with a calibrated band; show the model in use and its accuracy.",
        "LOAD_EXAMPLES",
    ),
    "backtest": Part(
        "predict.load:backtest",
        "Backtest forecasts: skill against the best naive forecast, and coverage of bands.",
        "BACKTEST_EXAMPLES",
    ),
    "runtime": Part(
        "predict.jobs:runtime",
        "Predict how long jobs run, from jobs that ended before each was submitted.",
        "RUNTIME_EXAMPLES",
    ),
    "record": Part(
        "predict.load:record",
        "Record how much of a core a process uses, from a nanosecond counter.",
        "RECORD_EXAMPLES",
    ),
    "demand": Part(
        "predict.jobs:demand", "Predict operations, step time, memory and utilisation of a job."
    ),
}


class Predict(LazyGroup):
    """Groups all commands of `flyball predict`."""

    parts = PARTS


app = typer.Typer(
    help="Predict load, run times and demand, with calibrated bands.",
    cls=Predict,
    no_args_is_help=True,
)
