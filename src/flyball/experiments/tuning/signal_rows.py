"""Rows of what following price and carbon saves, by place and over all places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flyball.core.units import S_PER_HOUR
from flyball.experiments.run_file import RunFile
from flyball.experiments.tuning.rows import Row, mean_95, tuning_row
from flyball.experiments.tuning.signals import (
    BLIND,
    FIXED,
    FOLLOW,
    STATIC,
    Note,
    Place,
    SignalPlan,
    Task,
    billed,
    measure,
)


def rows(note: Note, runs: RunFile) -> list[Row]:
    """Measure the default plan."""
    plan = SignalPlan()
    return rows_of(plan, measure(plan, runs, note))


def rows_of(plan: SignalPlan, results: dict[Task, Row]) -> list[Row]:
    """Return changes by place and slack against both baselines, then over all places of a kind."""
    out: list[Row] = []
    for slack_h in plan.slacks_h:
        pooled: dict[tuple[str, str], list[float]] = {}
        for place in plan.places():
            part = _place_rows(plan, results, place, slack_h)
            for row in part:
                pooled.setdefault((place.kind, row["baseline"]), []).append(row["value"])
            out += part
        for (kind, baseline), values in pooled.items():
            case = f"{kind}, {len(values)} {'regions' if kind == 'carbon' else 'markets'}"
            metric = "carbon_pct" if kind == "carbon" else "cost_pct"
            row = tuning_row(case, _slack_text(slack_h), baseline, metric, mean_95(values))
            tasks = [t for t in results if t[0] == kind and t[5] == slack_h]
            out.append({**row, **_totals([results[task] for task in tasks])})
    return out


def _slack_text(slack_h: float) -> str:
    return f"slack {slack_h:g} h"


def _place_rows(
    plan: SignalPlan, results: dict[Task, Row], place: Place, slack_h: float
) -> list[Row]:
    """Return the change of the bill in one place: against blind and against the best static."""
    seeds = range(plan.seeds)
    bills = {
        s: [billed(_fixed(results, s, seed)["energy_kwh"], place, seed) for seed in seeds]
        for s in STATIC
    }
    best = min(STATIC, key=lambda settings: sum(bills[settings]))
    ours = [results[(*place, seed, FOLLOW, slack_h)] for seed in seeds]
    out = []
    for title, settings in (("blind", BLIND), ("best static", best)):
        changes = [
            100 * (run["bill"] / bill - 1) for run, bill in zip(ours, bills[settings], strict=True)
        ]
        metric = "carbon_pct" if place.kind == "carbon" else "cost_pct"
        case, slack = f"{place.kind} {place.name}", _slack_text(slack_h)
        row = tuning_row(case, slack, title, metric, mean_95(changes))
        theirs = [_fixed(results, settings, seed)["completion_s"] for seed in seeds]
        hours = [run["completion_s"] for run in ours]
        row["completion_pct"] = 100 * (float(np.mean(hours)) / float(np.mean(theirs)) - 1)
        out.append({**row, "settings": list(settings), **_totals(ours)})
    return out


def _fixed(results: dict[Task, Row], settings: tuple[str, ...], seed: int) -> Row:
    return results[(FIXED, "", False, seed, settings, 0.0)]


def _totals(runs: Sequence[Row]) -> Row:
    """Return sums over runs, and the percent of jobs that ended within the slack after blind."""
    jobs = sum(run["jobs"] for run in runs)
    return {
        "within_slack_pct": 100 * (1 - sum(run["late"] for run in runs) / jobs),
        "missed": sum(run["missed"] for run in runs),
        "missed_by_blind": sum(run["missed_by_blind"] for run in runs),
        "preemptions_per_job": sum(run["preemptions"] for run in runs) / jobs,
        "completion_h": float(np.mean([run["completion_s"] for run in runs])) / S_PER_HOUR,
        "jobs": jobs,
    }
