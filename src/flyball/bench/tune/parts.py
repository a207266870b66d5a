"""`flyball bench tune`: what tuning is worth, part by part, each figure with its bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from flyball.bench.figure import Bar, Figure
from flyball.experiments.part_runs import BenchPart, Outcome, run_parts
from flyball.experiments.run_file import RunFile

Row = dict[str, Any]
Note = Callable[[str], None]


class TunePart(NamedTuple):
    """One part of the benchmark.

    Attributes:
        about: what is measured, for people.
        module: in package `flyball`; its `rows(progress)` measures the part.
        modules: Python modules that it needs besides the base install.
        data: files of the shared data that it needs.
        keeps_runs: whether `rows` also takes `runs`, to keep every single run by itself.
    """

    about: str
    module: str
    modules: tuple[str, ...] = ()
    data: tuple[tuple[str, ...], ...] = ()
    keeps_runs: bool = False


PARTS = {
    "mixed": TunePart(
        "elastic sizes, types, caps and sleep on T4, 2080 Ti and A100 (about 10 minutes)",
        "experiments.tuning.mixed",
        data=(("sia_pollux", "workloads.csv.gz"),),
        keeps_runs=True,
    ),
    "sharing": TunePart(
        "two jobs on a device, by Gavel's measured pairs", "experiments.tuning.sharing"
    ),
    "caps": TunePart(
        "power caps on configurations they were not chosen on",
        "experiments.tuning.caps",
        data=(("zeus", "power_vs_limit.csv.gz"),),
    ),
    "replicas": TunePart(
        "replicas of a service on ServeGen's second week",
        "experiments.tuning.replicas",
        data=(("servegen_2025", "total_rate_10min.csv.gz"),),
    ),
    "pathways": TunePart("each class of jobs on its own pathway", "experiments.tuning.pathways"),
    "completion": TunePart(
        "completion time with the market against the best plain policy (about 3 minutes)",
        "experiments.tuning.completion",
        data=(("sia_pollux", "workloads.csv.gz"), ("pollux", "workloads.csv.gz")),
        keeps_runs=True,
    ),
    "goals": TunePart(
        "each goal of the weights alone against the best plain policy (about 5 minutes)",
        "experiments.tuning.goals",
        data=(
            ("sia_pollux", "workloads.csv.gz"),
            ("pollux", "workloads.csv.gz"),
            ("carbon_intensity", "carboncast_2020_2021.csv.gz"),
            ("electricity_price", "day_ahead_hourly.csv.gz"),
        ),
        keeps_runs=True,
    ),
    "hesrpt": TunePart(
        "the market against the optimum, where that is known", "experiments.tuning.hesrpt"
    ),
    "peers": TunePart(
        "completion on the ground of Sia and Pollux, beside theirs (about 5 minutes)",
        "experiments.peers.compare",
        data=(
            ("sia_pollux", "placements.csv.gz"),
            ("pollux", "workloads.csv.gz"),
            ("peer_runs", "sia_jct.csv.gz"),
            ("peer_runs", "pollux_jct.csv.gz"),
        ),
        keeps_runs=True,
    ),
    "signals": TunePart(
        "price and carbon: deferral, caps and sleep that follow them (about 10 minutes)",
        "experiments.tuning.signal_rows",
        data=(
            ("carbon_intensity", "carboncast_2020_2021.csv.gz"),
            ("electricity_price", "day_ahead_hourly.csv.gz"),
        ),
        keeps_runs=True,
    ),
    "optimiser": TunePart(
        "the optimiser above the tuners, where caps slow jobs more than is believed",
        "experiments.tuning.optimiser",
        data=(("sia_pollux", "workloads.csv.gz"), ("pollux", "workloads.csv.gz")),
        keeps_runs=True,
    ),
    "speed": TunePart(
        "the twin with every effect on, and the time of a round at 64 GPUs and 1,000 nodes",
        "bench.tune.speed",
    ),
    "live": TunePart(
        "a real elastic job on this machine", "bench.tune.live", modules=("torch", "safetensors")
    ),
    "live-caps": TunePart("a real job under caps on this machine", "bench.tune.live_caps"),
}
"""Every part, in the order in which they run."""

LOWER_IS_BETTER = (
    *(
        "energy_per_work",
        "completion",
        "device-hours",
        "round_ms",
        "carbon_pct",
        "cost_pct",
        "money_pct",
    ),
    *("money_pct", "steps", "loss away", "processor time less the cap", "most above the cap"),
)
"""Beginnings of the metrics that a bar limits from above; it limits all others from below."""


def parts(runs: RunFile) -> dict[str, BenchPart]:
    """Return every part with what it needs."""
    return {
        name: BenchPart(_Rows(part, runs), part.about, part.modules, part.data)
        for name, part in PARTS.items()
    }


class _Rows:
    """Measures a part; loads its module only then."""

    def __init__(self, part: TunePart, runs: RunFile) -> None:
        self._part, self._runs = part, runs

    def __call__(self, note: Note) -> list[Row]:
        module = import_module(f"flyball.{self._part.module}")
        more = {"runs": self._runs} if self._part.keeps_runs else {}
        rows: list[Row] = module.rows(note, **more)
        return rows


def run(
    progress: Note, only: Sequence[str], runs: RunFile, done: Note = lambda _part: None
) -> Outcome:
    """Measure the parts named, or all.

    Raises:
        UnknownName: no such part.
        DataAbsent: no part can run here.
    """
    return run_parts(parts(runs), only, progress, runs, done=done)


def figure_of(row: Row) -> Figure:
    """Return the figure in a row; its labels are the case, the load and the baseline."""
    metric = str(row["metric"])
    lower = metric.startswith(LOWER_IS_BETTER)
    bar = Bar.at_most(row["bar"]) if lower else Bar.at_least(row["bar"])
    load = "" if row["load"] is None else str(row["load"])
    labels = (row["case"], load, row["baseline"] or "")
    return Figure(metric, row["value"], bar=bar, low=row["low"], high=row["high"], labels=labels)
