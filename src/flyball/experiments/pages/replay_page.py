"""The page of a replay: what each policy would have given, and how that was computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from flyball import __version__
from flyball.core.units import duration_text
from flyball.experiments.figures import replay_drawing
from flyball.experiments.pages.document import Cell, Page, number_cell
from flyball.experiments.pages.intervals import DRAWS, Change, change_of_completion, text_of
from flyball.experiments.record_report import record_lines, record_rows
from flyball.experiments.replay import ReplayCase, Run, by_policy, differences
from flyball.experiments.report import (
    TIMES,
    USES,
    Metric,
    bill_metrics,
    bills_title,
    change_text,
    title,
    window_text,
)

DEFINITIONS = (
    "Completion is the time from submission to end, wait the part of it without devices; p50 and "
    "p95 are quantiles over jobs.",
    "In use is the share of device time that jobs held; work counts reference device-hours.",
    "Energy is that of all nodes, idle ones too, by the power model of the device catalogue.",
    "Cost adds the device-hours that stood idle and those that jobs waited for.",
    "Fairness is Jain's index over jobs' slowdowns, 1 = all alike; balance is the coefficient of "
    "variation of the load of devices.",
)


def replay_page(
    runs: Sequence[Run], case: ReplayCase, command: str, site_policy: str | None = None
) -> str:
    """Return the page of a replay's runs, which kept their results of the first seed."""
    page = Page(f"Policies on {case.workloads[0].name}", title(case))
    page.heading("In short")
    page.points(sentences(runs, case))
    add_policies(page, runs, case, site_policy)
    add_method(page, case, command)
    return page.html()


def add_policies(
    page: Page,
    runs: Sequence[Run],
    case: ReplayCase,
    site_policy: str | None = None,
    heading: str = "Policies",
) -> None:
    """Add tables and figures of the policies to a page."""
    page.heading(heading)
    times, uses = record_rows(case, len(TIMES) + 1, len(USES) + 1)
    page.table(
        ("policy", *(metric.heading for metric in TIMES)), _rows(runs, TIMES, times),
        "How long jobs take",
    )  # fmt: skip
    page.table(
        ("policy", *(metric.heading for metric in USES)), _rows(runs, USES, uses),
        f"How the cluster is used. {window_text(case)}.",
    )  # fmt: skip
    if bills := bill_metrics(case.cluster):
        header = ("policy", *(metric.heading for metric in bills))
        page.table(header, _rows(runs, bills, []), bills_title(case.cluster))
    page.points(record_lines(runs, case, site_policy))
    first = [run for run in runs if run.seed == 0 and run.results is not None]
    if first:
        page.figure(
            replay_drawing(first, ""),
            "Completion times, the queue, and time, energy and cost by policy (first seed)",
        )
    if len(case.policies) > 1:
        _add_changes(page, runs, case, first)


def _add_changes(page: Page, runs: Sequence[Run], case: ReplayCase, first: Sequence[Run]) -> None:
    base = case.policies[0].name
    if case.seeds > 1:
        gaps = differences(runs)
        rows = [
            [Cell(gap["policy"]), *(_gap_cell(gap.get(name)) for name in COMPARED)] for gap in gaps
        ]
        page.table(
            ("policy", *COMPARED.values()), rows,
            f"Change from {base} in percent, mean over {case.seeds} seeds paired by seed, "
            "with a 95 % interval (Student's t)",
        )  # fmt: skip
        return
    changes = changes_of(first)
    rows = [[Cell(name), number_cell(text_of(change), change.percent)] for name, change in changes]
    blocks = max((change.blocks for _, change in changes), default=0)
    page.table(
        ("policy", "mean completion"), rows,
        f"Change from {base}. 95 % intervals by a bootstrap of {DRAWS:,} draws over {blocks} "
        "blocks of consecutive jobs",
    )  # fmt: skip


COMPARED = {
    "completion_s": "completion",
    "work_per_window": "work",
    "utilisation": "in use",
    "energy_kwh": "energy",
    "cost": "cost",
    "money": "money",
    "carbon_g": "carbon",
}


def _gap_cell(gap: dict[str, Any] | None) -> Cell:
    if gap is None:
        return Cell("-")
    return number_cell(change_text(gap), gap["percent"][0] if "percent" in gap else math.nan)


def changes_of(first: Sequence[Run]) -> list[tuple[str, Change]]:
    """Return each policy's change of mean completion against the first one's, of one seed."""
    base, *others = first
    assert base.results is not None
    return [
        (run.policy, change_of_completion(run.results, base.results))
        for run in others
        if run.results is not None
    ]


def sentences(runs: Sequence[Run], case: ReplayCase) -> list[str]:
    """Return what matters most, in sentences with numbers."""
    runs_of = by_policy(runs)
    lines = []
    wanted = ["completion_s", "energy_kwh", "cost", "money", "carbon_g"]
    metrics = {metric.key: metric for metric in (*TIMES, *USES, *bill_metrics(case.cluster))}
    names = {
        "completion_s": "The shortest mean completion time", "energy_kwh": "The least energy",
        "cost": "The least time lost by idle devices and waiting jobs",
        "money": "The lowest price of energy", "carbon_g": "The least carbon",
    }  # fmt: skip
    for key in wanted:
        metric = metrics.get(key)
        values = {name: metric.mean(of) for name, of in runs_of.items()} if metric else {}
        values = {name: value for name, value in values.items() if math.isfinite(value)}
        if metric is None or not values:
            continue
        best = min(values, key=lambda name: values[name])
        unit = "" if key == "completion_s" else f" {metric.heading.removeprefix('energy ')}"
        line = f"{names[key]}: {best}, {metric.text(values[best])}{_unit_of(key, unit)}"
        base = case.policies[0].name
        if best != base and values.get(base):
            change = 100 * (values[best] / values[base] - 1)
            line += f", {change:+.0f} % against {base} ({metric.text(values[base])})"
            line += _interval(runs, case, best) if key == "completion_s" else ""
        lines.append(f"{line}.")
    return lines


def _interval(runs: Sequence[Run], case: ReplayCase, policy: str) -> str:
    """Return the 95 % interval of a policy's change of completion; empty if there is none."""
    low = high = math.nan
    if case.seeds > 1:
        gap = next(gap for gap in differences(runs) if gap["policy"] == policy)
        _mean, low, high = gap["completion_s"].get("percent", (math.nan,) * 3)
    else:
        first = [run for run in runs if run.results is not None]
        if first and first[0].policy == case.policies[0].name:
            changed = dict(changes_of(first)).get(policy)
            low, high = (changed.low, changed.high) if changed else (low, high)
    return f", 95 % interval {low:+.0f} to {high:+.0f}" if math.isfinite(low) else ""


def _unit_of(key: str, heading: str) -> str:
    return {"completion_s": "", "energy_kwh": " kWh", "cost": " device-hours"}.get(key, heading)


def add_method(page: Page, case: ReplayCase, command: str) -> None:
    """Add how the figures were computed, so that they can be computed again."""
    page.heading("How this was computed")
    page.text(
        f"Flyball {__version__} replayed the jobs in a simulation of the cluster that runs the "
        "same decision code as the live scheduler.",
        f"{case.seeds} run{'s' if case.seeds > 1 else ''} per policy.",
    )
    if command:
        page.code(command)
    page.points(DEFINITIONS)
    effects = case.effects
    restarts = ", ".join(duration_text(seconds) for seconds in effects.restart_s)
    stated = [f"restarts take {restarts} by gang size"]
    if effects.mtbf_h:
        stated.append(f"nodes fail every {effects.mtbf_h:g} h on average")
    if effects.estimate_sigma:
        stated.append(f"estimates are off by a factor with sigma {effects.estimate_sigma:g}")
    page.text(f"Settings: {'; '.join(stated)}.")
    page.points(case.notes)


def _rows(
    runs: Sequence[Run], metrics: Sequence[Metric], record: Sequence[Sequence[str]]
) -> list[list[Cell]]:
    """Return a row per policy, after the record's."""
    rows = [[Cell(text) for text in row] for row in record]
    for policy, of_policy in by_policy(runs).items():
        values = [metric.mean(of_policy) for metric in metrics]
        cells = [
            number_cell(metric.text(value), value)
            for metric, value in zip(metrics, values, strict=True)
        ]
        rows.append([Cell(policy), *cells])
    return rows
