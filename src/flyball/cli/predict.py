"""`flyball predict`: what is coming, how long a job runs, what it asks of a device."""

from __future__ import annotations

import typer

from flyball.cli import predict_jobs, predict_load, predict_status

app = typer.Typer(
    help="Predict load, run times and demand, with bands that are checked.",
    no_args_is_help=True,
)
app.command("status", epilog=predict_status.EXAMPLES)(predict_status.status)
app.command("load", epilog=predict_load.LOAD_EXAMPLES)(predict_load.load)
app.command("backtest", epilog=predict_load.BACKTEST_EXAMPLES)(predict_load.backtest)
app.command("runtime", epilog=predict_jobs.RUNTIME_EXAMPLES)(predict_jobs.runtime)
app.command("record", epilog=predict_load.RECORD_EXAMPLES)(predict_load.record)
app.add_typer(predict_jobs.demand, name="demand")
