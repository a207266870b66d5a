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
        "Compare each tenant's completion on a shared cluster with that on its quota's own nodes.",
    ),
    "tune-heuristics": Part(
        "bench.tune_heuristics:tune_heuristics",
        "Search the knobs for the best heuristic; judge it on workloads it has not seen.",
    ),
    "tune": Part(
        "bench.tune:tune",
        "Measure what elastic sizes, sharing, caps, sleep and replicas gain, against bars.",
    ),
    "forecasts": Part(
        "bench.forecasts:forecasts",
        "Measure what forecasts of load, requests and run times are worth to rules that read them.",
    ),
    "monitor": Part(
        "bench.monitor:monitor",
        "Measure the CPU, memory and disk that monitoring takes; compare its values with psutil's.",
    ),
    "submit": Part(
        "bench.submit:submit",
        "Measure submits, decisions, memory, short and long jobs and recovery, against bars.",
    ),
    "starts": Part(
        "bench.starts:starts",
        "Run the live demo and compare start-time forecasts with what happened.",
    ),
    "web": Part(
        "bench.web:web",
        "Measure the dashboard: first paint of a long queue, cost of viewers, memory.",
    ),
    "engines": Part(
        "bench.engines:engines",
        "Measure watching a real Slurm queue, and own jobs on it, also while everything is killed.",
    ),
    "learning": Part(
        "bench.learning:learning",
        "Measure steps of Pick-v0 and Govern-v0 per CPU-second, and the time to serve a policy.",
    ),
    "twin": Part(
        "bench.twin:twin",
        "Measure the twin's events per CPU-second on saturated clusters, steps, clones and forks.",
    ),
    "parts": Part(
        "bench.parts:parts",
        "Measure the CPU time of parts, from the start of `flyball` to a round of caps.",
    ),
    "shares": Part(
        "bench.shares:shares",
        "Measure the time of a decision with 1,000 and 10,000 active jobs, and of a replayed week.",
    ),
    "gavel": Part(
        "bench.gavel:gavel",
        "Compare the share policies with Gavel's simulator on its 100 jobs, and its differences.",
    ),
    "models": Part(
        "bench.models:models",
        "Measure what optimised models gain: inference, training, memory, single layers.",
    ),
    "run-times": Part(
        "bench.run_times:run_times",
        "Compare policies with and without quantiles of predicted run times, over the same seeds.",
    ),
    "placement": Part(
        "bench.placement:placement",
        "Measure the share of devices left unallocated when pods arrive and none leaves.",
    ),
    "predict": Part(
        "predict.load:cost",
        "Measure the CPU time of load forecasts: a cluster's series once a minute, growth, fits.",
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
