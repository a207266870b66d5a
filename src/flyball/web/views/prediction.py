"""Prediction: what is forecast, how good forecasts have been, and whether their bands hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.units import duration_text
from flyball.web.bands import band_options
from flyball.web.components.elements import Chart
from flyball.web.feed import Feed
from flyball.web.frame import PATIENCE_S, frame, tag
from flyball.web.parts import again, command, empty, facts, panel, table

EVERY_S = 30.0
NAMES = {
    "load": "Devices asked for", "arrivals": "Arrivals", "running": "Devices held",
    "pending": "Jobs waiting", "utilisation": "Utilisation",
}  # fmt: skip


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/prediction", response_timeout=PATIENCE_S)
    async def prediction_page(request: Request) -> None:
        with frame(api, feed, request, "Prediction", "/prediction") as page:
            body = ui.element("div")

            async def show() -> None:
                forecast = await page.feed.outlook()
                with again(body):
                    _show(forecast)

            await show()
            ui.timer(EVERY_S, show, immediate=False)
            page.every_second(lambda picture: None)


def _show(forecast: Mapping[str, Any]) -> None:
    report = forecast["predictions"]
    if "loads" not in report:
        with ui.element("section").classes("fb-panel"), empty("Nothing was predicted yet."):
            tag("div", str(report.get("note") or "the worker learns from the first jobs"))
            tag("div", "It reports once a minute, after the first jobs. To give it some:")
            command("flyball demo live")
        return
    with ui.element("div").classes("fb-two"):
        with panel("Start times"):
            _calibration(report["starts"], str(forecast["note"]))
        with panel("Run times"):
            _run_times(report["run_times"])
    by_name = {row["series"]: row for row in report["loads"]}
    rows = forecast["loads"]
    for pair in (rows[at : at + 2] for at in range(0, len(rows), 2)):
        with ui.element("div").classes("fb-two"):
            for row in pair:
                _series(row, by_name.get(row["series"], {}))


def _series(row: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    name = NAMES.get(row["series"], row["series"])
    with panel(name, row["unit"]):
        Chart(band_options(row), f"Forecast of {name} with its 90 % band")
        leads = about.get("leads", [])
        if leads:
            cells = [
                (
                    duration_text(lead["ahead_s"]), lead["model"], lead["naive"],
                    _number(lead["rmae"], "{:.2f}"), _number(lead["coverage_90"], "{:.0%}"),
                    f"{lead['n']:,}",
                )
                for lead in leads
            ]  # fmt: skip
            columns = ("Ahead", "Model", "Best naive", "rMAE", "In band", "n")
            table(columns, cells, (3, 4, 5), f"Skill of the forecast of {name}")
            text = "rMAE: error over that of the best naive forecast, below 1 is better; "
            tag("div", text + "in band: should be 90 %.", "note")
        drift = "; ".join(about.get("drift", []))
        remark = "; ".join(part for part in (about.get("note", ""), drift) if part)
        if remark:
            tag("div", remark, "note")


def _calibration(starts: Mapping[str, Any], note: str) -> None:
    """Add the plot of how often forecasts of starts held."""
    points = [[round(100 * level, 1), round(100 * share, 1), count]
              for level, share, count in starts.get("calibration") or []]  # fmt: skip
    stated = [
        [level, round(100 * starts[f"coverage_p{level}"], 1)]
        for level in (50, 90)
        if starts.get(f"coverage_p{level}") is not None
    ]
    if points or stated:
        Chart(calibration_options(points, stated), "Calibration of the forecasts of start times")
    else:
        with empty("No forecast of a start was judged yet."):
            tag("div", "A job that waits is forecast, and judged when it starts or is overdue.")
    facts(
        {
            "Started within p50": _kept(starts, 50), "Started within p90": _kept(starts, 90),
            "Forecasts open": f"{starts.get('waiting', 0):,}",
        }
    )  # fmt: skip
    tag("div", note, "note")
    text = "Between p50 and p90, and beyond them, by the lognormal distribution through both."
    tag("div", text, "note")


def calibration_options(
    points: Sequence[Sequence[float]], stated: Sequence[Sequence[float]]
) -> dict[str, Any]:
    """Return the chart of calibration: how often a promised level held.

    Args:
        points: level and share in percent, of all levels.
        stated: the same of the levels that users are told.
    """
    series = [
        {"name": "as promised", "type": "line", "data": [[0, 0], [100, 100]],
         "showSymbol": False, "itemStyle": {"color": "--soft"},
         "lineStyle": {"type": "dashed", "color": "--soft"}},
        {"name": "all levels", "type": "line", "data": [list(row[:2]) for row in points],
         "symbol": "circle", "symbolSize": 7, "itemStyle": {"color": "--c2"},
         "lineStyle": {"color": "--c2", "width": 1.5}},
        {"name": "p50 and p90 as stated", "type": "scatter", "data": [list(row) for row in stated],
         "symbol": "diamond", "symbolSize": 15, "itemStyle": {"color": "--c1"}, "z": 5,
         "label": {"show": True, "formatter": "{@[1]} %", "position": "bottom", "color": "--ink"}},
    ]  # fmt: skip
    return {
        "grid": {"left": 48, "right": 26, "top": 56, "bottom": 40},
        "legend": {"top": 0, "type": "scroll"},
        "xAxis": {"type": "value", "min": 0, "max": 100, "name": "promised (%)",
                  "nameLocation": "middle", "nameGap": 26},
        "yAxis": {"type": "value", "min": 0, "max": 100, "name": "held (%)"},
        "tooltip": {"trigger": "item"},
        "series": series,
    }  # fmt: skip


def _kept(starts: Mapping[str, Any], level: int) -> str:
    share, count = starts.get(f"coverage_p{level}"), starts.get(f"n_p{level}", 0)
    if share is None or not count:
        return "none judged yet"
    return f"{share:.0%} of {count:,} (should be {level} %)"


def _run_times(runs: Mapping[str, Any]) -> None:
    error = runs.get("median_abs_log_error")
    facts(
        {
            "Model": runs["model"], "Learnt from": f"{runs['learnt']:,} jobs",
            "Judged": f"{runs['n']:,} predictions",
            "Median error": "" if error is None else f"a factor of {math.exp(error):.2f}",
            "Within a factor of 2": _number(runs.get("within_2x"), "{:.0%}"),
            "In the 90 % band": _number(runs.get("coverage_90"), "{:.0%}"),
            "Note": " ".join(str(runs.get(key) or "") for key in ("note", "fit_error")).strip(),
        }
    )  # fmt: skip
    if not runs["n"]:
        tag("div", "Predictions are judged when their jobs end.", "note")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
