"""Tables of a comparison: the same rows for the screen and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

from flyball.core.units import duration_text
from flyball.experiments.compare.summary import Comparison


class Table(NamedTuple):
    """A title, a header and rows; the first column is text."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def relative_table(comparison: Comparison) -> Table:
    """Return policies x scenarios: completion over the best policy's, and the lower bound."""
    scenarios = list(comparison.scenarios)
    rows = [
        (
            row["policy"],
            *(f"{comparison.mean(name, row['policy'])['relative']:.2f}" for name in scenarios),
            f"{row['relative']:.2f}",
            _percent(row["regret"]),
        )
        for row in comparison.overall
    ]
    rows.append(("lower bound", *(f"{ratio:.2f}" for ratio in bound_row(comparison)), ""))
    return Table(
        "Mean completion time in multiples (x) of the best policy of the scenario; regret: percent "
        "over the lower bound",
        ("policy", *(f"{name} (x)" for name in scenarios), "overall (x)", "regret (%)"),
        rows,
    )


def bound_row(comparison: Comparison) -> list[float]:
    """Return the lower bound over the best policy's result, for each scenario and overall."""
    row = [_bound_over_best(comparison, name) for name in comparison.scenarios]
    return [*row, _geometric_mean(row)]


def _bound_over_best(comparison: Comparison, scenario: str) -> float:
    policies = list(comparison.policies)
    best = min(policies, key=lambda name: float(comparison.mean(scenario, name)["relative"]))
    bounds = {row["seed"]: row["best_s"] for row in comparison.scenarios[scenario]["bounds"]}
    rows = [r for r in comparison.results if r["scenario"] == scenario and r["policy"] == best]
    return _geometric_mean([bounds[r["seed"]] / r["completion_s"]["mean"] for r in rows])


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(fmean(map(math.log, values))) if min(values) > 0 else 0.0


def change_table(comparison: Comparison) -> Table:
    """Return each policy against the baselines, over all scenarios, with intervals."""
    rows = [
        (row["policy"], *(_change(row["change"].get(base)) for base in comparison.against))
        for row in comparison.overall
    ]
    return Table(
        "Change of the completion time in percent over all scenarios, paired by seed, with a "
        "95 % interval",
        ("policy", *(f"from {base} (%)" for base in comparison.against)),
        rows,
    )


def fairness_table(comparison: Comparison) -> Table:
    """Return the fairness of each policy over the jobs of all runs, and what single jobs bore."""
    by_policy = {row["policy"]: row for row in comparison.fairness}
    rows = []
    for name in (row["policy"] for row in comparison.overall if row["policy"] in by_policy):
        row = by_policy[name]
        rows.append(
            (
                name,
                *(f"{row[f'finish_fairness_{which}']:.2f}" for which in ("p50", "p95", "p99")),
                f"{row['finish_fairness_most']:.1f}",
                f"{row['preemptions_per_job']:.2f}",
                f"{row['most_preemptions']:,}",
                f"{row['moves_per_job']:.3f}",
                f"{row['most_moves']:,}",
            )
        )
    return Table(
        "Finish-time fairness of all jobs (x the time with an equal share of the cluster; less is "
        "better), and how often jobs were preempted and moved",
        (
            *("policy", "median (x)", "p95 (x)", "p99 (x)", "worst (x)"),
            *("preempted per job", "worst job", "moved per job", "worst job"),
        ),
        rows,
    )


def scenario_table(comparison: Comparison, scenario: str) -> Table:
    """Return one scenario: means over the seeds, and the change from the baseline."""
    about = comparison.scenarios[scenario]
    changes = {
        row["policy"]: row["completion_s"].get("percent")
        for row in comparison.changes
        if row["scenario"] == scenario and row["against"] == comparison.baseline
    }
    rows = []
    for policy in comparison.policies:
        mean = comparison.mean(scenario, policy)
        rows.append(
            (
                policy,
                duration_text(mean["completion_s"]),
                duration_text(mean["completion_p95_s"]),
                duration_text(mean["makespan_s"]),
                _number(mean["slowdown_p95"]),
                _number(mean["fairness_jain"]),
                _number(mean["preemptions"]),
                _number(mean["moves"]),
                f"{_most_preemptions(comparison, scenario, policy):,}",
                _percent(mean["regret"]),
                _change(changes.get(policy)),
            )
        )
    load = "all at time 0" if about["load"] is None else f"load {about['load']:g}"
    title = (
        f"{scenario}: {about['about']} ({about['jobs']} jobs, {about['devices']} devices, {load})"
    )
    header = (
        *("policy", "completion", "p95", "makespan", "slowdown p95 (x)", "fairness (Jain)"),
        *("preemptions", "moves", "worst job", "regret (%)", f"from {comparison.baseline} (%)"),
    )
    return Table(title, header, rows)


def _most_preemptions(comparison: Comparison, scenario: str, policy: str) -> int:
    """Return how often the job was preempted that was preempted most, over all seeds."""
    rows = comparison.results
    mine = (row for row in rows if row["scenario"] == scenario and row["policy"] == policy)
    return max(int(row["most_preemptions"]) for row in mine)


def markdown(comparison: Comparison, command: str, figure: str) -> str:
    """Return the comparison as a page of Markdown.

    Args:
        comparison: to show.
        command: that wrote it.
        figure: path of the figure, as seen from the page.
    """
    seeds = f"{len(comparison.seeds)} seeds of each scenario"
    parts = [
        "# Policies compared",
        f"Made by `{command}`, {seeds}, code {comparison.code}.",
        f"![Completion times of every policy in every scenario]({figure})",
        _as_markdown(relative_table(comparison)),
        _as_markdown(change_table(comparison)),
        _as_markdown(fairness_table(comparison)),
        "## By scenario",
        *(_as_markdown(scenario_table(comparison, name)) for name in comparison.scenarios),
    ]
    return "\n\n".join(parts) + "\n"


def _as_markdown(table: Table) -> str:
    lines = [table.header, ("---", *("---:",) * (len(table.header) - 1)), *table.rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table.title}\n\n{body}"


def _change(percent: Sequence[float | None] | None) -> str:
    """Return `-62 (-80..-44)`: the mean and its interval, if there is one."""
    if percent is None or percent[0] is None or not _is_number(percent[0]):
        return "-"
    mean, low, high = percent[0], percent[1], percent[2]
    digits = 1 if abs(mean) < 20 else 0
    if not (_is_number(low) and _is_number(high)):
        return f"{mean:+.{digits}f}"
    return f"{mean:+.{digits}f} ({low:+.{digits}f}..{high:+.{digits}f})"


def _percent(value: float | None) -> str:
    return f"{100 * value:.0f}" if value is not None and _is_number(value) else "-"


def _number(value: float | None) -> str:
    if value is None or not _is_number(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _is_number(value: Any) -> bool:
    return value is not None and math.isfinite(value)
