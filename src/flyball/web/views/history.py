"""Cluster over time: what ran where, how full the cluster was, and what it came to by whom."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.units import J_PER_KWH, duration_text
from flyball.web.components.elements import Chart, Gantt
from flyball.web.feed import Feed
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.parts import again, command, empty, panel, table

SPANS = {"1 h": 3600.0, "6 h": 21_600.0, "24 h": 86_400.0, "7 d": 604_800.0, "30 d": 2_592_000.0}
MOST_JOBS = 20_000
UNITS = {
    "held": ("devices", 1.0), "waiting": ("jobs", 1.0), "energy_j": ("kWh", 1 / J_PER_KWH),
    "cost": ("", 1.0), "carbon_g": ("kg", 1e-3),
}  # fmt: skip
"""Unit and factor of each figure; "" = the currency."""
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900", "#7a6fd0")
"""As in the chart of what ran where: distinguishable for colour-blind people."""
STRIPES = {"symbol": "rect", "dashArrayX": [1, 0], "color": "rgba(255,255,255,0.28)"}
DECALS = (
    {"symbol": "none"},
    {**STRIPES, "dashArrayY": [2, 6], "rotation": -0.78},
    {"symbol": "circle", "symbolSize": 0.5, "color": "rgba(255,255,255,0.4)"},
    {**STRIPES, "dashArrayY": [2, 6], "rotation": 0.78},
)
"""Patterns of the layers, so that they are not told apart by colour alone."""


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/time", response_timeout=PATIENCE_S)
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
        some = await self._page.calls.get("history", since=since_s, limit=1, part="bars")
        with panel("What ran where"):
            if not some["jobs"]:
                with empty(f"Nothing ran in the last {self._span}."):
                    command("flyball submit -- sleep 60")
            else:
                Gantt().load(since_s, 0)
        box = ui.element("div")
        if some["jobs"]:
            ui.timer(0.1, lambda: self._add_figures(box, since_s), once=True)
        self._page.every_second(lambda picture: None)

    async def _add_figures(self, box: ui.element, since_s: float) -> None:
        """Add what the span came to, which takes longer than what ran where."""
        with again(box), panel("Over the span"):
            tag("div", "adding up ...", "note").props("role=status")
        get = self._page.calls.get
        history = await get("history", since=since_s, limit=MOST_JOBS, part="totals")
        with again(box), panel("Over the span", f"{history['jobs']:,} jobs"):
            _Figures(history)
            if not history["complete"]:
                tag("div", f"Only the latest {MOST_JOBS:,} jobs of the span.", "note")


class _Figures:
    """Figures over time and in sum, by user, account or class.

    Args:
        history: as `GET /history` returns it.
    """

    def __init__(self, history: Mapping[str, Any]) -> None:
        self._history = history
        self._by, self._figure = "user", "held"
        self._devices = sum(node["devices"] for node in history["nodes"])
        self._box = ui.element("div")
        self._draw()

    def _draw(self) -> None:
        history = self._history
        rows = history["by"][self._by]
        figures = {"held": "Devices held", "waiting": "Jobs waiting", "energy_j": "Energy"}
        if any(row["cost"] for row in rows):
            figures["cost"] = "Cost"
        if any(row["carbon_g"] for row in rows):
            figures["carbon_g"] = "Carbon"
        with again(self._box):
            with ui.element("div").classes("fb-row"):
                self._choose("Figure", figures, "_figure")
                names = {name: f"by {name}" for name in history["by"]}
                self._choose("Grouping", names, "_by")
            label = f"{figures[self._figure]} by {self._by} over time"
            Chart(self._chart(figures[self._figure]), label)
            _totals(history, self._by)
            if "cost" not in figures or "carbon_g" not in figures:
                with ui.element("div").classes("note"):
                    tag("span", "Cost and carbon appear once their prices are given: ")
                    tag("code", "flyball up --energy-price 0.31 --carbon 350")

    def _choose(self, label: str, names: Mapping[str, str], attribute: str) -> None:
        def pick(name: str) -> None:
            setattr(self, attribute, name)
            self._draw()

        with ui.element("div").classes("fb-seg").props(f'role=group aria-label="{label}"'):
            for name, text in names.items():
                is_on = getattr(self, attribute) == name
                choice = tag("button", text, "on" if is_on else "")
                choice.props(f'type="button" aria-pressed="{str(is_on).lower()}"')
                choice.on("click", lambda name=name: pick(name))

    def _chart(self, title: str) -> dict[str, Any]:
        """Return the chart of a figure over time, a layer for each name."""
        series = self._history["series"]
        unit, factor = UNITS[self._figure]
        unit = unit or self._history["currency"]
        edges = [round(edge * 1000) for edge in series["edges"]]
        layers = [
            {"name": name or "(not stated)", "type": "bar", "stack": "all", "barWidth": "99%",
             "itemStyle": {"color": COLOURS[at % len(COLOURS)], "decal": DECALS[at % len(DECALS)]},
             "data": [[(edges[part] + edges[part + 1]) / 2, value * factor]
                      for part, value in enumerate(rows[self._figure])]}
            for at, (name, rows) in enumerate(series["by"][self._by].items())
        ]  # fmt: skip
        most = {}
        if self._figure == "held":  # against what there is
            most = {"max": self._devices, "interval": self._devices / 4}
        return {
            "grid": {"left": 58, "right": 14, "top": 52, "bottom": 24},
            "legend": {"top": 0, "type": "scroll"},
            "tooltip": {"trigger": "axis", "valueFormatter": "$number"},
            "xAxis": {"type": "time", "min": edges[0], "max": edges[-1]},
            "yAxis": {"type": "value", "min": 0, "name": f"{title} ({unit})",
                      "nameTextStyle": {"align": "left"}, **most},
            "series": layers,
        }  # fmt: skip


def _totals(history: Mapping[str, Any], by: str) -> None:
    """Add the table of what the span came to."""
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
