"""`flyball bench`: measures speed on this machine, and compares policies."""

from __future__ import annotations

import typer

from flyball.cli.lazy import LazyGroup, Part

PARTS = {
    "compare": Part(
        "bench.compare:compare",
        "Compare policies on many scenarios: intervals, and regret against lower bounds.",
    ),
    "fairness": Part(
        "bench.fairness:fairness",
        "Completion of each tenant on a shared cluster over that on its quota's own nodes.",
    ),
    "tune-heuristics": Part(
        "bench.tune_heuristics:tune_heuristics",
        "Search the knobs for the best heuristic; judge it on workloads it has not seen.",
    ),
    "tune": Part(
        "bench.tune:tune",
        "What elastic sizes, sharing, caps, sleep and replicas are worth: gains with their bars.",
    ),
    "monitor": Part(
        "bench.monitor:monitor",
        "CPU, memory and disk that monitoring takes, and its agreement with psutil.",
    ),
    "submit": Part(
        "bench.submit:submit",
        "Submits, decisions, memory, short and long jobs, recovery: each figure with its bar.",
    ),
    "starts": Part(
        "bench.starts:starts",
        "Run the live demo and compare start-time forecasts with what happened.",
    ),
    "twin": Part(
        "bench.twin:twin",
        "Events per CPU-second of the twin on saturated clusters, and what a clone costs.",
    ),
    "parts": Part(
        "bench.parts:parts",
        "CPU time of single parts, from the start of `flyball` to a round of caps, with bars.",
    ),
    "shares": Part(
        "bench.shares:shares",
        "Time of a decision with 1,000 and 10,000 active jobs, and of a replayed week.",
    ),
    "placement": Part(
        "bench.placement:placement",
        "Share of a cluster's devices that stays unallocated when pods arrive and none leaves.",
    ),
    "predict": Part(
        "predict.load:cost",
        "CPU time of load forecasts: a cluster's series once a minute, growth, fits.",
        "COST_EXAMPLES",
    ),
}


class Bench(LazyGroup):
    """Loads the commands of `flyball bench`."""

    parts = PARTS


app = typer.Typer(
    help="Measure this machine, this code and the policies.",
    cls=Bench,
    no_args_is_help=True,
    rich_markup_mode=None,
)
