"""Now: what runs where, how long the queue is, what it draws and costs, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.units import J_PER_KWH
from flyball.web.bands import band_options
from flyball.web.components.elements import Chart, DeviceMap
from flyball.web.feed import Feed, Picture
from flyball.web.frame import PATIENCE_S, frame, status_text, tag
from flyball.web.parts import Meter, Tile, command, empty, moment, panel, watts

FORECAST_S = 15.0
"""How often the forecasts are drawn again; they change once a minute."""
BANDS = (("running", "Devices held"), ("pending", "Jobs waiting"))


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/now", response_timeout=PATIENCE_S)
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
                tiles.show_day(await feed.today())
                forecast = await feed.outlook()
                now = await feed.picture()
                values = {"running": now.devices.held, "pending": now.pending}
                most = {"running": len(now.devices.job), "pending": None}
                for name, (chart, note) in charts.items():
                    row = next((row for row in forecast["loads"] if row["series"] == name), None)
                    note.set_text(_note(row, forecast))
                    if row is not None:
                        chart.style("display: block")
                        chart.set(band_options(row, values[name], most[name]))

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
            self.energy = Tile("Energy today")
            self.price = Tile("Price and carbon")
        self._meters = ui.element("div").classes("fb-meters")
        self._budgets: dict[str, Meter] = {}
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
        if price is not None:
            more = "" if carbon is None else f"; {carbon:.0f} g CO2"
            self.price.set(f"{price:.3g} {signals.get('currency', '')}", f"a kWh{more}")
        elif carbon is not None:
            self.price.set(f"{carbon:.0f} g CO2", "a kWh")
        else:
            self.price.set("not given", "flyball up --signals FILE")

    def show_day(self, today: Mapping[str, Any]) -> None:
        """Show the energy of the day, and what was used of the budgets."""
        total_j, idle_j = today["jobs_j"] + today["idle_j"], today["idle_j"]
        more = [f"{idle_j / total_j:.0%} idle"] if total_j else []
        if today["cost"]:
            more.append(f"{today['cost']:,.3g} {today['currency']}")
        if today["carbon_g"]:
            more.append(f"{today['carbon_g'] / 1000:,.3g} kg CO2")
        since = moment(today["since"])[11:16]
        self.energy.set(energy_text(total_j), "; ".join(more) or f"since {since}")
        source = "measured" if today["measured_j"] else "modelled"
        self.energy.explain(
            f"Since {moment(today['since'])} (the day begins at midnight UTC), {source}: jobs by "
            "their receipts, idle devices by the idle draw of their type. Cost and carbon are "
            "those of jobs."
        )
        for name, text, part in budget_rows(today):
            if name not in self._budgets:
                with self._meters:
                    self._budgets[name] = Meter(name)
            self._budgets[name].set(text, part)


def energy_text(joules: float) -> str:
    """Return an energy as people read it."""
    kwh = joules / J_PER_KWH
    if kwh >= 1000:
        return f"{kwh / 1000:,.2f} MWh"
    return f"{kwh:,.3g} kWh" if kwh >= 0.1 else f"{kwh * 1000:,.3g} Wh"


def budget_rows(today: Mapping[str, Any]) -> list[tuple[str, str, float]]:
    """Return name, text and used part of each budget, the power first."""
    budget = today["budget"]
    if budget is None:
        return []
    rows = []
    if budget["limit_w"]:
        drawn_w, limit_w = budget["drawn_w"], budget["limit_w"]
        text = f"{watts(drawn_w)} of {watts(limit_w)}"
        if budget["power_w"] and limit_w < budget["power_w"]:
            text += f", below the {watts(budget['power_w'])} of the budget: the day's is used up"
        rows.append(("Power budget", text, drawn_w / limit_w))
    if budget["money_per_day"]:
        spent, most = budget["money_spent"], budget["money_per_day"]
        text = f"{spent:,.2f} of {most:,.2f} {today['currency']} today"
        rows.append(("Money budget", text, spent / most))
    if budget["carbon_kg_per_day"]:
        spent, most = budget["carbon_g_spent"] / 1000, budget["carbon_kg_per_day"]
        rows.append(("Carbon budget", f"{spent:,.2f} of {most:,.2f} kg CO2 today", spent / most))
    return rows


def _band_panel(name: str, title: str) -> tuple[Chart, Any]:
    with panel(title):
        note = tag("div", "no forecast yet", "note")
        chart = Chart({}, f"{title}: the past, the forecast and its 90 % band")
        chart.style("display: none")  # until there is a forecast
    return chart, note


def _note(row: Mapping[str, Any] | None, forecast: Mapping[str, Any]) -> str:
    if row is None:
        return "No forecast yet: the worker makes one a minute after the first jobs."
    report = forecast["predictions"].get("loads", [])
    remark = next((one.get("note", "") for one in report if one["series"] == row["series"]), "")
    return f"in {row['unit']}; line: median, area: 90 % band{'; ' + remark if remark else ''}"
