"""`flyball bench`: how fast this is here, and how policies compare."""

from __future__ import annotations

from typing import Any

import typer

from flyball.cli import (
    bench_compare,
    bench_fairness,
    bench_monitor,
    bench_placement,
    bench_submit,
    bench_tune,
    bench_tune_layer,
    predict_load,
)
from flyball.cli.bench_shares import shares
from flyball.cli.options import AsJson
from flyball.cli.output import note, print_json, print_table

app = typer.Typer(
    help="Measure this machine, this code and the policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("compare", epilog=bench_compare.EXAMPLES)(bench_compare.compare)
app.command("fairness", epilog=bench_fairness.EXAMPLES)(bench_fairness.fairness)
app.command("tune-heuristics", epilog=bench_tune.EXAMPLES)(bench_tune.tune_heuristics)
app.command("tune", epilog=bench_tune_layer.EXAMPLES)(bench_tune_layer.tune)
app.command("monitor", epilog=bench_monitor.EXAMPLES)(bench_monitor.monitor)
app.command("submit", epilog=bench_submit.EXAMPLES)(bench_submit.submit)


@app.callback()
def _group() -> None:
    pass


@app.command(
    epilog="""\b
Examples:
  flyball bench twin
  flyball bench twin --json > twin.json
"""
)
def twin(
    as_json: AsJson = False,
) -> None:
    """Events per CPU-second of the twin on saturated clusters, and what a clone costs."""
    from flyball.bench.twin import run

    figures = run(note)
    if as_json:
        print_json(figures)
        return
    cases = [
        (
            each["name"],
            f"{each['nodes']:,}",
            f"{each['pending_mean']:,.0f}",
            f"{each['events']:,}",
            f"{each['events_per_s']:,.0f}",
        )
        for each in figures["cases"]
    ]
    header = ("case", "nodes", "mean pending", "events", "events per CPU-second")
    print_table("The twin on saturated clusters", header, cases)
    lengths = [
        (name, *(f"{value:,.0f}" for value in by_pending.values()))
        for name, by_pending in _scaling(figures).items()
    ]
    pending = [f"{int(each):,} pending" for each in next(iter(_scaling(figures).values()))]
    print_table("Nanoseconds per event, 1,000 nodes", ("order", *pending), lengths)
    rest = [(_NAMES[name], _shown(figures[name])) for name in _NAMES]
    print_table("", ("figure", "value"), rest)


app.command(
    epilog="""\b
Examples:
  flyball bench shares
  flyball bench shares --policy max-min-het --json
"""
)(shares)
app.command("placement", epilog=bench_placement.EXAMPLES)(bench_placement.placement)
app.command("predict", epilog=predict_load.COST_EXAMPLES)(predict_load.cost)

_NAMES = {
    "first_compile_s": "first compile (s)",
    "reference_ratio": "times faster than the reference",
    "clone_us_1k": "clone into an earlier clone, 1,000 nodes (us)",
    "clone_fresh_us_1k": "clone afresh (us)",
    "clone_kib": "size of that clone (KiB)",
    "clone_jobs": "jobs in it",
    "clone_running": "of these running",
    "million_jobs_cpu_s": "a million jobs, without files (CPU-s)",
    "philly_a_fifo_cpu_s": "Philly A under fifo, without reading it (CPU-s)",
    "philly_a_read_cpu_s": "reading Philly A (CPU-s)",
}


def _scaling(figures: dict[str, Any]) -> dict[str, dict[str, float]]:
    return figures["ns_per_event_by_pending"]  # type: ignore[no-any-return]


def _shown(value: object) -> str:
    if value is None:
        return "no data here"
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"
