"""What is reported of replays on the command line and in notebooks: metrics, JSON, jobs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any, NamedTuple

from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.metrics import WINDOW_BEGINS, Summary, waits_s
from flyball.core.results import Floats, Results
from flyball.core.units import J_PER_KWH, MILLI_PER_DEVICE, US_PER_S, duration_text
from flyball.core.workload import Workload
from flyball.experiments.record_report import record_json
from flyball.experiments.replay import ReplayCase, Run, by_policy, differences, or_nan
from flyball.experiments.signal_report import describe_signals
from flyball.physics.catalogue import unit_of
from flyball.twin.inputs.recorded_on import recorded_counts, scalings


def number(value: float) -> str:
    """Format a number with three significant digits and thousands separators."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


class Metric(NamedTuple):
    """A column of the tables of policies.

    Attributes:
        key: its name in data.
        heading: its name in tables, with the unit.
        value: reads it from a run's summary.
        text: formats it.
    """

    key: str
    heading: str
    value: Callable[[Summary], float]
    text: Callable[[float], str]

    def mean(self, runs: Sequence[Run]) -> float:
        """Return the mean over the seeds of one policy."""
        return fmean(self.value(run.summary) for run in runs)


def _fraction(value: float) -> str:
    return f"{value:.3f}"


TIMES = (
    Metric("completion_s", "completion", lambda s: s.completion_s.mean, duration_text),
    Metric("completion_p50_s", "p50", lambda s: s.completion_s.p50, duration_text),
    Metric("completion_p95_s", "p95", lambda s: s.completion_s.p95, duration_text),
    Metric("wait_s", "wait", lambda s: s.wait_s.mean, duration_text),
    Metric("slowdown_p95", "slowdown p95 (x)", lambda s: s.slowdown_p95, number),
    Metric("fairness_jain", "fairness (0..1)", lambda s: s.fairness_jain, _fraction),
    Metric("preemptions", "preempted (times)", lambda s: s.preemptions, lambda n: f"{n:,.0f}"),
)
"""Metrics of the first table: how long jobs take."""
USES = (
    Metric("utilisation", "in use", lambda s: s.utilisation, lambda part: f"{100 * part:.1f} %"),
    Metric("work_per_window", "work dev-h", lambda s: s.work_per_window, number),
    Metric("energy_kwh", "energy kWh", lambda s: s.energy_kwh, number),
    Metric("energy_per_work", "kWh/dev-h", lambda s: s.energy_per_work, number),
    Metric("peak_power_kw", "peak kW", lambda s: s.peak_power_kw, number),
    Metric("cost", "cost dev-h", lambda s: s.cost, number),
    Metric("balance", "balance (cv)", lambda s: s.balance, _fraction),
)
"""Metrics of the second table: how the cluster is used."""
G_PER_KG = 1000.0
CHANGED = {
    "completion_s": "completion",
    "work_per_window": "work",
    "utilisation": "in use",
    "energy_kwh": "energy",
    "cost": "cost",
}
"""Metrics whose change from the first policy is shown, and their headings."""


def bill_metrics(cluster: Cluster) -> tuple[Metric, ...]:
    """Return the metrics of the table of money and carbon; none without signals."""
    unit = cluster.currency or "money"
    metrics: list[Metric] = []
    if cluster.price is not None:
        metrics += [
            Metric("money", unit, lambda s: or_nan(s.money), number),
            Metric("money_per_work", f"{unit}/dev-h", lambda s: or_nan(s.money_per_work), number),
        ]
    if cluster.carbon is not None:
        metrics += [
            Metric(
                "carbon_g", "kg CO2", lambda s: or_nan(s.carbon_g), lambda g: number(g / G_PER_KG)
            ),
            Metric(
                "carbon_g_per_work", "g CO2/dev-h", lambda s: or_nan(s.carbon_g_per_work), number
            ),
        ]
    return tuple(metrics)


def bills_title(cluster: Cluster) -> str:
    """Return one line on the signals, and which span each column is of."""
    parts = [
        f"{name} {signal.describe()}"
        for name, signal in (("price", cluster.price), ("carbon", cluster.carbon))
        if signal is not None
    ]
    return f"Energy of all nodes by {', '.join(parts)}; per dev-h of work: in the window"


def policy_rows(runs: Sequence[Run], case: ReplayCase) -> list[dict[str, Any]]:
    """Return a row per policy: every metric of the tables, as means over the seeds."""
    runs_of = by_policy(runs)
    return [
        {
            "policy": policy.name,
            **{metric.key: metric.mean(runs_of[policy.name]) for metric in (*TIMES, *USES)},
        }
        for policy in case.policies
    ]


def change_text(gap: dict[str, Any], digits: int = 0) -> str:
    """Return the mean and its interval, if there is one: `-62 (-80..-44)`."""
    if "percent" not in gap:
        return "-"
    mean, low, high = (f"{value:+.{digits}f}" for value in gap["percent"])
    return f"{mean} ({low}..{high})" if math.isfinite(gap["percent"][1]) else mean


def report_json(
    runs: Sequence[Run], case: ReplayCase, site_policy: str | None = None
) -> dict[str, Any]:
    """Return the whole report for JSON."""
    out: dict[str, Any] = {
        "trace": {
            **describe_trace(case.workloads[0]),
            **recording(case.workloads[0], case.cluster),
        },
        "cluster": describe_cluster(case.cluster),
        "policies": {policy.name: policy.knobs.as_dict() for policy in case.policies},
        "results": [run.as_dict() for run in runs],
    }
    if history := record_json(runs, case, site_policy):
        out["recorded"] = history
    if case.notes:
        out["notes"] = list(case.notes)
    if case.seeds > 1 and len(case.policies) > 1:
        out["differences"] = differences(runs)
    return out


def describe_trace(workload: Workload) -> dict[str, Any]:
    """Summarise a trace in a few numbers."""
    asked = workload.devices * (workload.milli / MILLI_PER_DEVICE)
    return {
        "name": workload.name,
        "jobs": len(workload),
        "span_s": workload.span_us / US_PER_S,
        "window_s": [WINDOW_BEGINS * workload.span_us / US_PER_S, workload.span_us / US_PER_S],
        "device_hours": float((asked * workload.duration_us).sum()) / US_PER_S / 3600,
        "max_devices": int(workload.devices.max()),
        "tenants": len(workload.tenants),
    }


def recording(workload: Workload, cluster: Cluster) -> dict[str, Any]:
    """Return the device types that durations were recorded on, and the scaling to others."""
    scaled = [scaling.as_dict() for scaling in scalings(workload, cluster)]
    return {"recorded_on": recorded_counts(workload), "scaled": scaled}


def describe_cluster(cluster: Cluster) -> dict[str, Any]:
    """Summarise a cluster in a few numbers."""
    return {
        "name": cluster.name,
        "nodes": cluster.node_count,
        "devices": cluster.device_count,
        "power_budget_kw": cluster.power_budget_w / 1000 or None,
        "groups": [
            {
                "name": group.name,
                "count": group.count,
                "device": group.device,
                "devices": group.devices,
            }
            for group in cluster.groups
        ],
        **describe_signals(cluster),
    }


def title(case: ReplayCase) -> str:
    """Return one line on what was run."""
    trace, cluster = describe_trace(case.workloads[0]), describe_cluster(case.cluster)
    unit = unit_of(case.cluster.groups)
    line = (
        f"{trace['name']}: {trace['jobs']} jobs over {duration_text(trace['span_s'])} on "
        f"{cluster['name']} ({cluster['nodes']} nodes, {cluster['devices']} {unit}s)"
    )
    return f"{line}, means of {case.seeds} seeds" if case.seeds > 1 else line


def window_text(case: ReplayCase) -> str:
    """Which span each column of the second table is of, in a line."""
    begin_s, end_s = describe_trace(case.workloads[0])["window_s"]
    window = f"{duration_text(begin_s)} to {duration_text(end_s)}"
    return (
        f"In use, work and kWh/dev-h: window of 10-100 % of the arrivals ({window}); "
        "energy, peak, cost and balance: whole run"
    )


# Jobs -----------------------------------------------------------------------------


class JobRow(NamedTuple):
    """What became of one job under one policy and seed; None = it did not happen."""

    policy: str
    seed: int
    job: str
    submit_us: int
    start_us: int | None
    end_us: int | None
    wait_s: float | None
    devices: int
    gpu_milli: int
    pool: str
    attempts: int
    preemptions: int
    failures: int
    energy_kwh: float
    status: str
    money: float | None
    carbon_g: float | None


def job_rows(run: Run, case: ReplayCase) -> Iterator[JobRow]:
    """Yield a row per job of a run that kept its results, in the order of the trace."""
    results = run.results
    assert results is not None, "rows of jobs need runs that kept their results"
    pools = [group.device for group in case.cluster.groups]
    waits = iter(waits_s(results).tolist())
    columns = (
        case.workload(run.seed).ids,
        results.submit_us,
        results.first_start_us,
        results.end_us,
        results.devices,
        results.milli,
        results.pool,
        results.attempts,
        results.preemptions,
        results.failures,
        results.energy_j,
        results.status,
    )
    money, carbon = (_values(bill, results) for bill in (results.money, results.carbon_g))
    for row in zip(*(column.tolist() for column in columns), strict=True):
        job, submit, start, end, devices, milli, pool, attempts, *rest = row
        preemptions, failures, energy_j, status = rest
        final = status >= Status.DONE
        yield JobRow(
            run.policy,
            run.seed,
            job,
            submit,
            start if start >= 0 else None,
            end if final else None,
            next(waits) if final else None,
            devices,
            milli,
            pools[pool] if pool >= 0 else "",
            attempts,
            preemptions,
            failures,
            energy_j / J_PER_KWH,
            Status(status).name.lower(),
            next(money),
            next(carbon),
        )


def _values(column: Floats | None, results: Results) -> Iterator[float | None]:
    """Return an iterator over a column by job, of None where there is none."""
    return iter([None] * len(results.status) if column is None else column.tolist())
