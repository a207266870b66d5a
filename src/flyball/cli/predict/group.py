"""`flyball predict`: what is coming, how long a job runs, what it asks of a device."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "status": Part(
        "predict.status:status",
        "Say for loads, run times and start times which model is used and how good it has been.",
    ),
    "load": Part(
        "predict.load:load",
        "Forecast a series with a calibrated band; say which model speaks and how well it does.",
        "LOAD_EXAMPLES",
    ),
    "backtest": Part(
        "predict.load:backtest",
        "Rolling-origin back-test: skill against the best naive forecast, and coverage of bands.",
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
        "predict.jobs:demand", "Operations, step time, memory and utilisation of a job."
    ),
}


class Predict(LazyGroup):
    """All of `flyball predict`."""

    parts = PARTS


app = typer.Typer(
    help="Predict load, run times and demand, with bands that are checked.",
    cls=Predict,
    no_args_is_help=True,
)
