"""Reports of runs: tables, JSON, a CSV with a row per job, and a figure."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import typer

from flyball.cli.output import print_table
from flyball.cli.replay.record import record_json, record_lines, record_rows
from flyball.core.cluster import Cluster
from flyball.core.codes import Status
from flyball.core.metrics import WINDOW_BEGINS, Summary
from flyball.core.units import J_PER_KWH, MILLI_PER_DEVICE, US_PER_S, duration_text
from flyball.core.workload import Workload
from flyball.experiments.replay import ReplayCase, Run, differences

TIME_COLUMNS = (
    "policy",
    "completion",
    "p50",
    "p95",
    "wait",
    "slowdown p95 (x)",
    "fairness (0..1)",
    "preempted (times)",
)
USE_COLUMNS = (
    "policy",
    "in use",
    "work dev-h",
    "energy kWh",
    "kWh/dev-h",
    "peak kW",
    "cost dev-h",
    "balance (cv)",
    "run s",
)
PER_JOB_COLUMNS = (
    "policy",
    "seed",
    "job",
    "submit_s",
    "start_s",
    "end_s",
    "wait_s",
    "devices",
    "gpu_milli",
    "pool",
    "attempts",
    "preemptions",
    "failures",
    "energy_kwh",
    "status",
)


def as_json(
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
    from flyball.twin.inputs.recorded_on import recorded_counts, scalings

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
    }


def title(case: ReplayCase) -> str:
    """Return one line on what was run."""
    from flyball.physics.catalogue import unit_of

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


def print_runs(runs: Sequence[Run], case: ReplayCase, site_policy: str | None = None) -> None:
    """Print a line per policy (means over the seeds) and, with several seeds, the differences."""
    times, uses = record_rows(case, len(TIME_COLUMNS), len(USE_COLUMNS))
    for setting in case.policies:
        of_policy = [run for run in runs if run.policy == setting.name]
        summaries = [run.summary for run in of_policy]
        run_s = sum(run.run_s for run in of_policy) / len(of_policy)
        times.append([setting.name, *_time_cells(summaries)])
        uses.append([setting.name, *_use_cells(summaries), f"{run_s:.3f}"])
    print_table(title(case), TIME_COLUMNS, times)
    print_table(window_text(case), USE_COLUMNS, uses)
    for line in record_lines(runs, case, site_policy):
        typer.echo(line)
    if case.seeds > 1 and len(case.policies) > 1:
        _print_differences(runs)


def _time_cells(summaries: Sequence[Summary]) -> Iterator[str]:
    for part in ("mean", "p50", "p95"):
        yield duration_text(fmean(getattr(summary.completion_s, part) for summary in summaries))
    yield duration_text(fmean(summary.wait_s.mean for summary in summaries))
    yield number(fmean(summary.slowdown_p95 for summary in summaries))
    yield f"{fmean(summary.fairness_jain for summary in summaries):.3f}"
    yield f"{fmean(summary.preemptions for summary in summaries):,.0f}"


def _use_cells(summaries: Sequence[Summary]) -> Iterator[str]:
    yield f"{100 * fmean(summary.utilisation for summary in summaries):.1f} %"
    for name in ("work_per_window", "energy_kwh", "energy_per_work", "peak_power_kw", "cost"):
        yield number(fmean(getattr(summary, name) for summary in summaries))
    yield f"{fmean(summary.balance for summary in summaries):.3f}"


def number(value: float) -> str:
    """Format a number with three significant digits and thousands separators."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


CHANGE_COLUMNS = {
    "completion_s": "completion",
    "work_per_window": "work",
    "utilisation": "in use",
    "energy_kwh": "energy",
    "cost": "cost",
}


def _print_differences(runs: Sequence[Run]) -> None:
    gaps = differences(runs)
    rows = [[gap["policy"], *(change(gap[name]) for name in CHANGE_COLUMNS)] for gap in gaps]
    head = f"Change from {gaps[0]['against']} in percent, paired by seed, with a 95 % interval"
    print_table(head, ("policy", *CHANGE_COLUMNS.values()), rows)


def change(gap: dict[str, Any], digits: int = 0) -> str:
    """Return the mean and its interval, if there is one: `-62 (-80..-44)`."""
    if "percent" not in gap:
        return "-"
    mean, low, high = (f"{value:+.{digits}f}" for value in gap["percent"])
    return f"{mean} ({low}..{high})" if math.isfinite(gap["percent"][1]) else mean


def write_per_job(path: Path, runs: Sequence[Run], case: ReplayCase) -> None:
    """Write the CSV with a row per policy, seed and job, atomically."""
    from flyball.twin.inputs.traces.files import replacing

    with replacing(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(PER_JOB_COLUMNS)
        for run in runs:
            writer.writerows(_per_job(run, case))


def _per_job(run: Run, case: ReplayCase) -> Iterator[tuple[object, ...]]:
    from flyball.core.metrics import waits_s

    results = run.results
    assert results is not None
    workload = case.workloads[run.seed if len(case.workloads) > 1 else 0]
    pools = [group.device for group in case.cluster.groups]
    waits = iter(waits_s(results).tolist())
    columns = (
        workload.ids,
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
    for row in zip(*(column.tolist() for column in columns), strict=True):
        job, submit, start, end, devices, milli, pool, *counts, energy, status = row
        final = status >= Status.DONE
        yield (
            run.policy,
            run.seed,
            job,
            _seconds(submit),
            _seconds(start) if start >= 0 else "",
            _seconds(end) if final else "",
            f"{next(waits):.6f}".rstrip("0").rstrip(".") if final else "",
            devices,
            milli,
            pools[pool] if pool >= 0 else "",
            *counts,
            f"{energy / J_PER_KWH:.6g}",
            Status(status).name.lower(),
        )


def _seconds(microseconds: int) -> str:
    """Format microseconds as seconds, exactly and without trailing zeros."""
    seconds, rest = divmod(microseconds, US_PER_S)
    return f"{seconds}.{rest:06d}".rstrip("0") if rest else str(seconds)


def write_figure(path: Path, runs: Sequence[Run], title: str) -> None:
    """Write the figure of the first seed's runs, atomically."""
    from flyball.experiments.figures import replay_figure
    from flyball.twin.inputs.traces.files import replacing

    image = replay_figure([run for run in runs if run.seed == 0], title, path.suffix[1:].lower())
    with replacing(path) as out:
        out.buffer.write(image)
