"""Now: what runs where, how long the queue is, what it draws and costs, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.web.components.elements import Chart, DeviceMap
from flyball.web.feed import Feed, Picture
from flyball.web.frame import frame, status_text, tag
from flyball.web.parts import Tile, command, empty, panel, watts
from flyball.web.series import PastForecasts

FORECAST_S = 15.0
"""How often the forecasts are drawn again; they change once a minute."""
BANDS = (("running", "Devices held"), ("pending", "Jobs waiting"))


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""
    past = PastForecasts()

    @ui.page("/now")
    async def now_page(request: Request) -> None:
        with frame(api, feed, request, "Now", "/now") as page:
            picture = await feed.picture()
            tiles = _Tiles(picture)
            with panel("Devices", _nodes_text(picture)):
                devices = DeviceMap(picture.devices)
                if not picture.running and not picture.pending:
                    with empty("Nothing runs, and nothing waits."):
                        command("flyball submit -- sleep 60")
                        tag(
                            "div",
                            "or submit one on the Queue page; flyball demo live runs a dozen.",
                        )
            with ui.element("div").classes("fb-two"):
                charts = {name: _band_panel(name, title) for name, title in BANDS}

            def show(picture: Picture) -> None:
                tiles.show(picture)
                devices.show(picture.devices)

            async def foresee() -> None:
                forecast = (await page.feed.outlook()).forecast
                now = await feed.picture()
                past.take(forecast["loads"])
                past.observe("running", now.time_s, now.devices.held)
                past.observe("pending", now.time_s, now.pending)
                for name, (chart, note) in charts.items():
                    row = next((row for row in forecast["loads"] if row["series"] == name), None)
                    note.set_text(_note(row, forecast))
                    if row is not None:
                        chart.set(band_options(row, past.of(name), past.seen(name)))

            page.every_second(show)
            ui.timer(FORECAST_S, foresee, immediate=True)
            page._status.set_text(status_text(picture)) if page._status else None


def _nodes_text(picture: Picture) -> str:
    count = len(picture.devices.nodes)
    return f"{count:,} node{'s' * (count != 1)}"


class _Tiles:
    """The figures at the top."""

    def __init__(self, picture: Picture) -> None:
        with ui.element("div").classes("fb-tiles"):
            self.running = Tile("Running")
            self.waiting = Tile("Waiting")
            self.devices = Tile("Devices held")
            self.power = Tile("Power")
            self.price = Tile("Price and carbon")
        self.show(picture)

    def show(self, picture: Picture) -> None:
        table, signals = picture.devices, picture.signals
        count = len(table.job)
        down = sum(node[2] for node in table.nodes if not node[3])
        self.running.set(f"{picture.running:,}", "jobs")
        self.waiting.set(f"{picture.pending:,}", "jobs in the queue")
        share = f"{table.held / count:.0%} of {count:,}" if count else "no devices"
        self.devices.set(f"{table.held:,}", share + (f", {down} down" if down else ""))
        self.power.set(watts(table.total_w), f"{table.power_source}, all devices")
        price, carbon = signals.get("price_per_kwh"), signals.get("carbon_g_per_kwh")
        more = f"{carbon:.0f} g CO2 per kWh" if carbon is not None else "flyball up --signals FILE"
        if price is None and carbon is None:
            self.price.set("not given", more)
        else:
            text = "" if price is None else f"{price:.3g} {signals.get('currency', '')}/kWh"
            self.price.set(text or f"{carbon:.0f} g/kWh", more if text else "carbon")


def _band_panel(name: str, title: str) -> tuple[Chart, Any]:
    with panel(title):
        note = tag("div", "no forecast yet", "note")
        chart = Chart({}, f"{title}: the past, the forecast and its 90 % band")
    return chart, note


def _note(row: Mapping[str, Any] | None, forecast: Mapping[str, Any]) -> str:
    if row is None:
        return "No forecast yet: the worker makes one a minute after the first jobs."
    report = forecast["predictions"].get("loads", [])
    remark = next((one.get("note", "") for one in report if one["series"] == row["series"]), "")
    return f"in {row['unit']}; line: median, area: 90 % band{'; ' + remark if remark else ''}"


def band_options(
    row: Mapping[str, Any], past: list[Mapping[str, Any]], seen: list[tuple[float, float]]
) -> dict[str, Any]:
    """Return the chart of a forecast, with earlier forecasts and what happened behind it."""
    series: list[dict[str, Any]] = []
    for earlier in past:
        series += _band(earlier, "--c5/22", "earlier forecast")
    series += _band(row, "--c1/38", "forecast")
    series.append(
        {
            "name": "happened", "type": "line", "showSymbol": False,
            "data": [[time * 1000, value] for time, value in seen],
            "lineStyle": {"color": "--ink", "width": 2}, "itemStyle": {"color": "--ink"},
        }
    )  # fmt: skip
    return {
        "grid": {"left": 44, "right": 12, "top": 30, "bottom": 24},
        "legend": {"data": ["happened", "forecast", "earlier forecast"], "top": 0},
        "tooltip": {"trigger": "axis"},
        "xAxis": {"type": "time"},
        "yAxis": {
            "type": "value",
            "min": 0,
            **({"max": 100} if row["unit"] == "percent" else {}),
        },
        "series": series,
    }


def _band(row: Mapping[str, Any], colour: str, name: str) -> list[dict[str, Any]]:
    times = [(row["time"] + ahead) * 1000 for ahead in row["ahead_s"]]
    stack = f"{name}{row['time']}"
    invisible = {"opacity": 0}
    low = [max(0.0, value) for value in row["p05"]]
    width = [max(0.0, high - edge) for high, edge in zip(row["p95"], low, strict=True)]
    plain = {"type": "line", "showSymbol": False, "silent": True, "tooltip": {"show": False}}
    return [
        {**plain, "name": f"{name} from", "stack": stack, "lineStyle": invisible,
         "data": [list(pair) for pair in zip(times, low, strict=True)]},
        {**plain, "name": f"{name} to", "stack": stack, "lineStyle": invisible,
         "areaStyle": {"color": colour},
         "data": [list(pair) for pair in zip(times, width, strict=True)]},
        {"type": "line", "showSymbol": False, "name": name,
         "lineStyle": {"color": "--c1", "width": 2 if name == "forecast" else 1,
                       "type": "solid" if name == "forecast" else "dashed"},
         "itemStyle": {"color": "--c1" if name == "forecast" else "--c5"},
         "data": [[time, max(0.0, value)] for time, value in zip(times, row["p50"], strict=True)]},
    ]  # fmt: skip
