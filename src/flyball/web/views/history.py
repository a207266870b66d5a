"""Cluster over time: what ran where, how full the cluster was, and what it came to by whom."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.units import J_PER_KWH, duration_text
from flyball.web.components.elements import Chart, Gantt
from flyball.web.feed import Feed
from flyball.web.frame import Page, frame, tag
from flyball.web.parts import again, command, empty, panel, table

SPANS = {"1 h": 3600.0, "6 h": 21_600.0, "24 h": 86_400.0, "7 d": 604_800.0, "30 d": 2_592_000.0}
POINTS = 240
"""Points of the chart of utilisation."""


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/time")
    async def time_page(request: Request, span: str = "24 h") -> None:
        with frame(api, feed, request, "Over time", "/time") as page:
            await _TimeView(page, span if span in SPANS else "24 h").build()


class _TimeView:
    """The view of a span of the past."""

    def __init__(self, page: Page, span: str) -> None:
        self._page, self._span = page, span

    async def build(self) -> None:
        with ui.element("div").classes("fb-row"):
            group = ui.element("div").classes("fb-seg").props('role="group" aria-label="Span"')
            with group:
                for name in SPANS:
                    choice = tag("button", name, "on" if name == self._span else "")
                    choice.props(f'type="button" aria-pressed="{str(name == self._span).lower()}"')
                    path = f"/time?span={name.replace(' ', '%20')}"
                    choice.on("click", js_handler=f"() => window.location.href = '{path}'")
            tag("span", "Drag to move, Ctrl and the wheel to zoom, a click opens the job.", "note")
        since_s = time.time() - SPANS[self._span]
        history = await self._page.calls.get("history", since=since_s, limit=20_000)
        with panel("What ran where"):
            if not history["bars"]:
                with empty(f"Nothing ran in the last {self._span}."):
                    command("flyball submit -- sleep 60")
            else:
                gantt = Gantt()
                gantt.load(since_s, 0)
        if history["bars"]:
            with panel("Devices held", "average over each part of the span"):
                count = sum(node["devices"] for node in history["nodes"])
                Chart(_utilisation(history["bars"], since_s, count), "Devices held over time")
            with panel("What it came to", f"{history['jobs']:,} jobs") as box:
                self._totals = ui.element("div")
                _show_totals(self._totals, history, "user")
                box.props("data-totals")
        self._page.every_second(lambda picture: None)


def _show_totals(box: ui.element, history: Mapping[str, Any], by: str) -> None:
    with again(box):
        with ui.element("div").classes("fb-row"), ui.element("div").classes("fb-seg"):
            for name in history["by"]:
                choice = tag("button", f"by {name}", "on" if name == by else "")
                choice.props(f'type="button" aria-pressed="{str(name == by).lower()}"')
                choice.on("click", lambda name=name: _show_totals(box, history, name))
        rows = history["by"][by]
        money = any(row["cost"] for row in rows)
        carbon = any(row["carbon_g"] for row in rows)
        columns = [by.capitalize(), "Jobs", "Mean wait", "Device-hours", "Energy (kWh)"]
        columns += [f"Cost ({history['currency']})"] * money + ["Carbon (kg)"] * carbon
        cells = [
            [
                row["name"] or "(not stated)", f"{row['jobs']:,}", duration_text(row["wait_s"]),
                f"{row['device_hours']:,.3g}", f"{row['energy_j'] / J_PER_KWH:,.3g}",
                *[f"{row['cost']:,.2f}"] * money, *[f"{row['carbon_g'] / 1000:,.3g}"] * carbon,
            ]
            for row in rows[:50]
        ]  # fmt: skip
        table(columns, cells, range(1, len(columns)), f"What it came to by {by}")
        tag("div", "Of whole jobs; energy is modelled where it was not measured.", "note")


def _utilisation(bars: Sequence[Sequence[Any]], since_s: float, devices: int) -> dict[str, Any]:
    """Return the chart of the devices held, as averages over equal parts of the span."""
    until_s = time.time()
    since_s = max(since_s, min(bar[9] for bar in bars))
    part_s = max((until_s - since_s) / POINTS, 1e-3)
    held = [0.0] * POINTS
    for bar in bars:
        start, end, count = max(bar[9], since_s), min(bar[10], until_s), bar[8]
        at = int((start - since_s) / part_s)
        while at < POINTS and since_s + at * part_s < end:
            low, high = since_s + at * part_s, since_s + (at + 1) * part_s
            held[at] += count * max(0.0, min(end, high) - max(start, low)) / part_s
            at += 1
    data = [
        [round((since_s + at * part_s) * 1000), round(value, 3)] for at, value in enumerate(held)
    ]
    return {
        "grid": {"left": 46, "right": 14, "top": 16, "bottom": 24},
        "tooltip": {"trigger": "axis", "valueFormatter": "$number"},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "min": 0, "max": devices},
        "series": [{"name": "devices held", "type": "line", "showSymbol": False, "data": data,
                    "lineStyle": {"color": "--c1", "width": 2}, "areaStyle": {"color": "--c1/2e"}}],
    }  # fmt: skip
