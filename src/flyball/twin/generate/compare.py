"""Compares the generator with the measured traces it imitates, figure by figure.

`flyball trace generate --compare philly-like` prints what `compare_with_data` returns.
The tolerances are stated here; arrivals at a constant rate with exponential durations miss
most of them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from flyball.core.errors import UnknownName
from flyball.core.shared_data import shared_data
from flyball.core.units import S_PER_DAY, US_PER_S
from flyball.core.workload import Workload
from flyball.twin.generate import generate
from flyball.twin.generate.settings import preset
from flyball.twin.inputs.traces import read_trace
from flyball.twin.inputs.traces.describe import (
    autocorrelation,
    describe,
    device_seconds,
    dispersion,
)

SEEDS = (0, 1, 2, 3, 4)
"""Default seeds of the generated workloads."""
PHILLY_FROM_DAY = 27  # October; the weeks before are sparse
Facts = dict[str, Any]


@dataclass(frozen=True)
class TraceFigure:
    """Describes one figure of a trace.

    Attributes:
        name: name shown to users, with the unit.
        path: keys of the figure in the result of `describe`.
        tolerance: allowed distance of the generator's mean from the measured figure.
        ratio: whether the tolerance is a factor; else it is a difference.
    """

    name: str
    path: tuple[str, ...]
    tolerance: float
    ratio: bool = False

    def of(self, facts: Facts) -> float:
        value: Any = facts
        for key in self.path:
            value = value.get(key, {})
        return float(value) if value != {} else 0.0  # a size or outcome that no job has

    def close(self, measured: float, generated: float) -> bool:
        """Return whether the generated figure is within the tolerance."""
        if self.ratio:
            if measured <= 0 or generated <= 0:
                return measured == generated
            return 1 / self.tolerance <= generated / measured <= self.tolerance
        return abs(generated - measured) <= self.tolerance


@dataclass(frozen=True)
class ComparisonRow:
    """Holds one line of a comparison: `low` and `high` are the extremes over the seeds."""

    figure: str
    measured: float
    generated: float
    low: float
    high: float
    tolerance: str
    close: bool


def _factor(name: str, path: str, tolerance: float) -> TraceFigure:
    return TraceFigure(name, tuple(path.split("/")), tolerance, ratio=True)


def _within(name: str, path: str, tolerance: float) -> TraceFigure:
    return TraceFigure(name, tuple(path.split("/")), tolerance)


SEASON_FIGURES = (
    _factor("hourly jobs p50", "arrivals/hourly/p50", 1.5),
    _factor("hourly jobs p90", "arrivals/hourly/p90", 1.5),
    _factor("hourly jobs p99", "arrivals/hourly/p99", 1.5),
    _factor("hourly dispersion (variance / mean)", "arrivals/hourly/dispersion", 1.5),
    _within("hourly autocorrelation 1 h", "arrivals/hourly/autocorrelation/1_h", 0.15),
    _within("hourly autocorrelation 24 h", "arrivals/hourly/autocorrelation/24_h", 0.12),
    _within("hourly autocorrelation 168 h", "arrivals/hourly/autocorrelation/168_h", 0.12),
    _factor("peak / trough of the day (3 h means)", "arrivals/peak_over_trough", 1.5),
    _factor("weekday / weekend", "arrivals/weekday_over_weekend", 1.35),
)
PHILLY_FIGURES = (
    _factor("gap between arrivals p50 (s)", "arrivals/gap_s/p50", 1.5),
    _factor("gap between arrivals p90 (s)", "arrivals/gap_s/p90", 1.3),
    _factor("gap between arrivals p99 (s)", "arrivals/gap_s/p99", 1.3),
    _factor("gap coefficient of variation", "arrivals/gap_cv", 1.3),
    *SEASON_FIGURES,
    _factor("duration p50 (s)", "durations/p50", 1.5),
    _factor("duration p90 (s)", "durations/p90", 1.6),
    _factor("duration p99 (s)", "durations/p99", 1.6),
    _factor("duration mean (s)", "durations/mean", 1.5),
    _within("sigma of log duration", "durations/log_normal/sigma", 0.25),
    _within("jobs of 1 device", "gpus/1/jobs", 0.02),
    _within("jobs of 4 devices", "gpus/4/jobs", 0.01),
    _within("jobs of 8 devices", "gpus/8/jobs", 0.01),
    _within("device time of 1 device", "gpus/1/device_time", 0.10),
    _within("device time of 8 devices", "gpus/8/device_time", 0.15),
    _factor("median duration, 8 devices (s)", "gpus/8/median_s", 2.0),
    _within("device time of the top 1 % of jobs", "concentration/top_1_percent", 0.10),
    _within("device time of the top 10 % of jobs", "concentration/top_10_percent", 0.04),
    _within("log durations, correlation of neighbours", "repeat_correlation", 0.12),
    _within("jobs of the largest tenant", "tenants/top_1", 0.12),
    _within("jobs of the four largest tenants", "tenants/top_4", 0.10),
)
OUTCOME_FIGURES = tuple(
    _within(f"{what} {outcome}", f"outcomes/{outcome}/{key}", tolerance)
    for what, key, tolerance in (("jobs", "jobs", 0.01), ("device time", "device_time", 0.08))
    for outcome in ("completed", "failed", "cancelled")
)
HELIOS_FIGURES = (
    *SEASON_FIGURES,
    _factor("devices a job, mean", "devices_mean", 1.2),
    _factor("hourly devices asked for, dispersion", "devices_hourly/dispersion", 2.0),
    _within("hourly devices, autocorrelation 24 h", "devices_hourly/autocorrelation_24_h", 0.15),
    _factor("duration p50 (s)", "durations/p50", 1.3),
    _factor("duration mean (s)", "durations/mean", 1.3),
    _factor("device time a job, mean (s)", "device_s_mean", 1.5),
)


def compare_with_data(name: str, seeds: Sequence[int] = SEEDS) -> list[ComparisonRow]:
    """Compare a preset with the trace it imitates.

    Args:
        name: `philly-like` or `helios-like`.
        seeds: seeds of the generated workloads; figures are means over them.

    Raises:
        DataAbsent: the shared data is not installed.
    """
    sources: dict[str, tuple[tuple[TraceFigure, ...], Callable[[], Facts]]] = {
        "philly-like": ((*PHILLY_FIGURES, *OUTCOME_FIGURES), philly_facts),
        "helios-like": ((*HELIOS_FIGURES, *OUTCOME_FIGURES), helios_facts),
    }
    if name not in sources:
        raise UnknownName("preset with measured data", name, sources)
    figures, measured = sources[name]
    weekday = preset(name).start_weekday
    make = partial(generate, name)
    return compare(figures, measured(), [facts_of(make(seed), weekday) for seed in seeds])


def compare(
    figures: Sequence[TraceFigure], measured: Facts, generated: Sequence[Facts]
) -> list[ComparisonRow]:
    """Return a row for each figure."""
    rows = []
    for figure in figures:
        real = figure.of(measured)
        values = [figure.of(facts) for facts in generated]
        mean = float(np.mean(values))
        tolerance = f"x {figure.tolerance:g}" if figure.ratio else f"+- {figure.tolerance:g}"
        close = figure.close(real, mean)
        rows.append(
            ComparisonRow(figure.name, real, mean, min(values), max(values), tolerance, close)
        )
    return rows


def facts_of(workload: Workload, start_weekday: int) -> Facts:
    """Return the result of `describe`, with further figures to compare."""
    hours = (workload.submit_us // (3600 * US_PER_S)).astype(np.int64)
    asked = np.bincount(hours - hours[0], weights=workload.devices)
    return {
        **describe(workload, start_weekday),
        "devices_mean": float(workload.devices.mean()),
        "devices_hourly": {
            "dispersion": dispersion(asked),
            "autocorrelation_24_h": autocorrelation(asked, 24),
        },
        "device_s_mean": float(device_seconds(workload).mean()),
        "repeat_correlation": repeat_correlation(workload),
    }


def repeat_correlation(workload: Workload, apart_s: float = 60.0) -> float:
    """Return the correlation of log durations of a tenant's jobs submitted close together."""
    by_tenant = np.argsort(workload.tenant, kind="stable")
    logs = np.log(np.maximum(workload.duration_us[by_tenant] / US_PER_S, 1.0))
    gaps_s = np.diff(workload.submit_us[by_tenant]) / US_PER_S
    near = (np.diff(workload.tenant[by_tenant]) == 0) & (gaps_s < apart_s)
    return float(np.corrcoef(logs[:-1][near], logs[1:][near])[0, 1])


def philly_facts() -> Facts:
    """Return the facts of Philly, October and November 2017, with the whole trace's outcomes."""
    trace = read_trace(shared_data("philly", "jobs.csv.gz"), "philly")
    start_us = int(PHILLY_FROM_DAY * S_PER_DAY) * US_PER_S
    facts = facts_of(trace.take(np.flatnonzero(trace.submit_us >= start_us)), 0)
    summary = {row["id"]: row for row in _csv("acme_2023", "cluster_summary.csv.gz")}["Philly"]
    return {**facts, "outcomes": _outcomes(summary)}


def helios_facts() -> Facts:
    """Return the facts of Helios Venus, April to August 2020, from its series and totals."""
    series = _csv("helios", "venus_throughput_10min.csv.gz")
    jobs = np.array([int(row["submit_gpu_job"]) for row in series]).reshape(-1, 6).sum(axis=1)
    asked = np.array([float(row["submit_gpu_num"]) for row in series]).reshape(-1, 6).sum(axis=1)
    summary = {row["id"]: row for row in _csv("helios", "cluster_summary.csv.gz")}["Venus"]
    hours = np.repeat(np.arange(len(jobs)), jobs)
    arrivals = describe(Workload.of("Venus", hours * 3600.0, 1.0), 2)["arrivals"]
    outcomes = _outcomes(summary)
    return {
        "arrivals": arrivals,
        "devices_mean": float(asked.sum() / jobs.sum()),
        "devices_hourly": {
            "dispersion": dispersion(asked),
            "autocorrelation_24_h": autocorrelation(asked, 24),
        },
        "durations": {
            "p50": float(summary["med_run_time_gpu"]),
            "mean": float(summary["avg_run_time_gpu"]),
        },
        "device_s_mean": _device_time(summary) / float(summary["gpu_job_num"]),
        "outcomes": outcomes,
    }


OUTCOME_COLUMNS = {"completed": "complete", "failed": "fail", "cancelled": "cancel"}


def _outcomes(summary: dict[str, str]) -> Facts:
    total = _device_time(summary)
    return {
        outcome: {
            "jobs": float(summary[f"{column}_rate_gpu"]),
            "device_time": float(summary[f"{column}_gpu_time"]) / total,
        }
        for outcome, column in OUTCOME_COLUMNS.items()
    }


def _device_time(summary: dict[str, str]) -> float:
    return sum(float(summary[f"{column}_gpu_time"]) for column in OUTCOME_COLUMNS.values())


def _csv(*parts: str) -> list[dict[str, str]]:
    with gzip.open(shared_data(*parts), "rt", encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))
