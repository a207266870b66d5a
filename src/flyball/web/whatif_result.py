"""Results of what-if runs: figures by policy with intervals, and several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flyball.core.units import duration_text
from flyball.web.components.elements import Chart
from flyball.web.frame import tag
from flyball.web.parts import link, moment, panel, table

FIGURES = (
    ("completion_s", "Completion", duration_text), ("wait_s", "Wait", duration_text),
    ("utilisation", "In use", lambda value: f"{value:.1%}"),
    ("energy_kwh", "Energy (kWh)", lambda value: f"{value:,.3g}"),
    ("cost", "Cost (device-h)", lambda value: f"{value:,.3g}"),
    ("peak_power_kw", "Peak (kW)", lambda value: f"{value:,.3g}"),
)  # fmt: skip


def question_text(question: Mapping[str, Any]) -> str:
    """Return what differs from the present, in a few words."""
    parts = []
    if question["since_s"]:
        parts.append(f"since {moment(question['since_s'])}")
    if question["device"]:
        parts.append(question["device"])
    if question["nodes"] != 1:
        parts.append(f"{question['nodes']:g} x the nodes")
    if question["budget_w"]:
        parts.append(f"{question['budget_w']:,.0f} W")
    if question["tuners"]:
        parts.append(f"tuners {question['tuners']}")
    if question["noise"]:
        parts.append(f"noise {question['noise']:g}, {question['seeds']} runs")
    return ", ".join(parts) or "only the policy"


def show_result(question: Mapping[str, Any], result: Mapping[str, Any]) -> None:
    """Add the result of a run: figures by policy, and differences with intervals."""
    rows = result["rows"]
    trace = result["trace"]
    with panel("Result", f"{trace['jobs']:,} jobs over {duration_text(trace['span_s'])}"):
        tag("div", f"Different: {question_text(question)}", "note")
        names = ("Policy", *[name for _key, name, _form in FIGURES])
        cells = [(row["policy"], *figures_of(row)) for row in rows]
        table(names, cells, range(1, len(names)), "Figures by policy")
        _recorded(result)
        for gap in result.get("differences", []):
            tag("div", _gap_text(gap))
        if "differences" not in result and len(rows) > 1:
            text = "Nothing here is random, so there is one run and no interval; "
            tag("div", text + "give several runs and an error of estimates to get one.", "note")
        Chart(_bars(rows), "Mean completion and wait by policy")
        for remark in result.get("notes", []):
            tag("div", f"Note: {remark}", "note")


def figures_of(row: Mapping[str, Any]) -> list[str]:
    """Return the figures of a policy as text; `-` = not defined, as of an empty window."""
    values = [(form, row[key]) for key, _name, form in FIGURES]
    return [form(value) if math.isfinite(value) else "-" for form, value in values]


def _recorded(result: Mapping[str, Any]) -> None:
    """Add how it really went, as means over the jobs."""
    recorded = result.get("recorded") or {}
    words = [
        f"{key.removesuffix('_s')} {duration_text(recorded[key]['mean'])}"
        for key in ("completion_s", "wait_s")
        if isinstance(recorded.get(key), Mapping)
    ]
    if words:
        tag("div", f"As it really went: mean {', mean '.join(words)}", "note")


def _gap_text(gap: Mapping[str, Any]) -> str:
    parts = []
    for key, name, _form in FIGURES:
        change = gap.get(key, {}).get("percent")
        if change:
            mean, low, high = change
            parts.append(f"{name} {mean:+.1f} % ({low:+.1f} to {high:+.1f})")
    return f"{gap['policy']} against {gap['against']}: {'; '.join(parts)} (95 % intervals)"


def _bars(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = [row["policy"] for row in rows]
    return {
        "grid": {"left": 62, "right": 12, "top": 34, "bottom": 40},
        "legend": {"top": 0},
        "tooltip": {"trigger": "axis", "valueFormatter": "$seconds"},
        "xAxis": {"type": "category", "data": names},
        "yAxis": {"type": "value", "axisLabel": {"formatter": "$seconds"}},
        "series": [
            {"name": name, "type": "bar", "data": [row[key] for row in rows],
             "itemStyle": {"color": colour, "decal": {"symbol": "none"} if plain else
                           {"symbol": "rect", "dashArrayX": [1, 0], "dashArrayY": [3, 4],
                            "rotation": -0.78, "color": "rgba(255,255,255,0.45)"}}}
            for key, name, colour, plain in (
                ("completion_s", "Completion", "--c1", True), ("wait_s", "Wait", "--c2", False),
            )
        ],
    }  # fmt: skip


def show_comparison(runs: Sequence[Mapping[str, Any]]) -> None:
    """Add kept runs side by side, each policy of each against the first one."""
    rows = [(run, row) for run in runs for row in run["result"]["rows"]]
    base = rows[0][1]
    with panel("Side by side", f"against {_row_name(runs[0], base)}"):
        cells = [
            (
                lambda run=run: link(f"run {run['number']}", f"/whatif/{run['number']}"),
                question_text(run["question"]), row["policy"],
                *(_against(row, base, key, text)
                  for (key, _name, _form), text in zip(FIGURES, figures_of(row), strict=True)),
            )
            for run, row in rows
        ]  # fmt: skip
        names = ("Run", "What is different", "Policy", *[name for _key, name, _form in FIGURES])
        table(names, cells, range(3, len(names)), "Runs side by side")
        named = [{**row, "policy": _row_name(run, row)} for run, row in rows]
        Chart(_bars(named), "Mean completion and wait of each run and policy")
        spans = {(run["result"]["trace"]["jobs"], run["question"]["since_s"]) for run in runs}
        if len(spans) > 1:
            text = "Note: the runs are not of the same jobs, and differ by that too."
            tag("div", text, "note")
        for run in runs:
            when, jobs = moment(run["time"]), run["result"]["trace"]["jobs"]
            tag("div", f"Run {run['number']}: {jobs:,} jobs, made {when}.", "note")


def _row_name(run: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    return f"run {run['number']}: {row['policy']}"


def _against(row: Mapping[str, Any], base: Mapping[str, Any], key: str, text: str) -> str:
    """Return a figure with its change against the first row."""
    value, first = row[key], base[key]
    if row is base or not (math.isfinite(value) and math.isfinite(first) and first):
        return text
    return f"{text} ({value / first - 1:+.1%})"
