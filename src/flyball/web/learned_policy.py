"""What is known of a learned policy: its card, its curve of training, and how it has done here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flyball.core.errors import BadInput
from flyball.learn.policy.artifact import SHOWN, read, shipped
from flyball.learn.training.folder import CURVE, read_curve

US = 1e6
MOST_RUNS = 8
"""Curves that are drawn together: that of the policy, and of the runs beside it."""


def policy_in_use(opened: Mapping[str, Any]) -> Path | None:
    """Return the file of the learned policy that a control plane follows; None = it has none."""
    learned = opened.get("learned")
    return Path(learned["file"]) if learned else None


def describe(file: Path | None) -> dict[str, Any]:
    """Return card, hash, path and curves of a policy file; of the shipped one if there is none.

    Curves are those of the training run that the file lies in, and of the runs beside it.
    """
    path = file or shipped()
    try:
        policy = read(path)
    except BadInput as error:
        return {"path": str(path), "error": str(error), "curves": {}}
    return {
        "path": str(path), "card": dict(policy.card), "hash": policy.hash[:SHOWN],
        "curves": _curves(path.parent) if file else {},
    }  # fmt: skip


def _curves(folder: Path) -> dict[str, list[dict[str, float]]]:
    """Return the curves of a training run and of the runs beside it, by the name of the folder."""
    if not (folder / CURVE).is_file():
        return {}
    others = sorted(path.parent for path in folder.parent.glob(f"*/{CURVE}"))
    names = [folder, *(other for other in others if other != folder)][:MOST_RUNS]
    curves = {}
    for run in names:
        try:
            rows = [dict(row) for row in read_curve(run)]
        except (OSError, ValueError):
            continue
        if any("validation" in row for row in rows):
            curves[run.name] = rows
    return curves


def score_text(card: Mapping[str, Any]) -> str:
    """Return the score of a policy against the incumbent as its card states it."""
    score = (card.get("made") or {}).get("validation") or {}
    if "percent" not in score:
        return ""
    return (
        f"{score['percent']:+.1f} % ({score['low']:+.1f} to {score['high']:+.1f}) completion x "
        f"energy cost, on the {score['problems']} problems that it was chosen on"
    )


def choices_of(decisions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a learned policy chose in recorded decisions, the earliest first."""
    return [
        {"time": row["time_us"] / US, "number": row["number"], **row["learned"]}
        for row in decisions
        if row.get("learned")
    ]


def fall_backs(choices: Sequence[Mapping[str, Any]]) -> list[tuple[str, int, float]]:
    """Return reason, number and share of the choices in which the incumbent decided instead."""
    counts = Counter(choice.get("fallback") or "" for choice in choices)
    reasons = sorted((reason for reason in counts if reason), key=lambda name: -counts[name])
    return [(reason, counts[reason], counts[reason] / len(choices)) for reason in reasons]


def curve_options(curves: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Any]:
    """Return the chart of curves of training: validation by epochs of the environment."""
    colours = ("--c1", "--c2", "--c3", "--c4", "--c5", "--c6")
    symbols = ("circle", "rect", "triangle", "diamond", "pin", "arrow", "roundRect", "emptyCircle")
    series = [
        {"name": name, "type": "line", "symbol": symbols[at % len(symbols)], "symbolSize": 7,
         "lineStyle": {"color": colours[at % len(colours)], "width": 3 if at == 0 else 1.5,
                       "type": "solid" if at == 0 else "dashed"},
         "itemStyle": {"color": colours[at % len(colours)]},
         "data": [[row["epochs"], 100 * math.expm1(row["validation"])]
                  for row in rows if "validation" in row and "epochs" in row]}
        for at, (name, rows) in enumerate(curves.items())
    ]  # fmt: skip
    if series:
        series[0]["markLine"] = {
            "symbol": "none", "silent": True, "data": [{"yAxis": 0}],
            "lineStyle": {"color": "--soft", "type": "dotted"},
            "label": {"formatter": "incumbent", "color": "--soft", "position": "insideEndTop"},
        }  # fmt: skip
    return {
        "grid": {"left": 60, "right": 18, "top": 44, "bottom": 44},
        "legend": {"top": 0, "type": "scroll"},
        "tooltip": {"trigger": "axis", "valueFormatter": "$number"},
        "xAxis": {"type": "value", "name": "epochs of the environment", "nameLocation": "middle",
                  "nameGap": 28},
        "yAxis": {"type": "value", "name": "against the incumbent (%)", "scale": True,
                  "nameTextStyle": {"align": "left"}},
        "series": series,
    }  # fmt: skip


def choice_options(choices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the chart of the gain that each choice expected; fall-backs have another mark."""

    def points(fell_back: bool) -> list[list[float]]:
        return [
            [round(choice["time"] * 1000), 100 * float(choice.get("expected", 0.0))]
            for choice in choices
            if bool(choice.get("fallback")) == fell_back
        ]

    return {
        "grid": {"left": 60, "right": 18, "top": 58, "bottom": 24},
        "legend": {"top": 0},
        "tooltip": {"trigger": "item", "valueFormatter": "$number"},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "name": "expected gain (%)", "nameTextStyle": {"align": "left"}},
        "series": [
            {"name": "the policy chose", "type": "scatter", "symbol": "circle", "symbolSize": 8,
             "itemStyle": {"color": "--c1"}, "data": points(False)},
            {"name": "the incumbent decided", "type": "scatter", "symbol": "triangle",
             "symbolSize": 10, "itemStyle": {"color": "--c2"}, "data": points(True)},
        ],
    }  # fmt: skip
