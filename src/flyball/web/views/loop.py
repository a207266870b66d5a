"""Loop: monitoring, prediction, scheduling and optimisation as one picture with its flows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.codes import Reason
from flyball.web.components.elements import LoopPicture
from flyball.web.feed import Feed, Picture
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.metrics import read_metrics
from flyball.web.parts import again, moment, panel, table
from flyball.web.views.decisions import summary

EVERY_S = 5.0
US = 1e6
ADJUSTED = ("resized", "capped")


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/loop", response_timeout=PATIENCE_S)
    async def loop_page(request: Request) -> None:
        with frame(api, feed, request, "Loop", "/loop") as page:
            view = _Loop(page)
            await view.build()

            async def show(picture: Picture) -> None:
                if time.monotonic() - view.drawn_s > EVERY_S:
                    await view.refresh(picture)

            page.every_second(show)


class _Loop:
    """The picture and the latest adjustments."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.drawn_s = 0.0
        self._before: tuple[float, dict[str, float]] | None = None

    async def build(self) -> None:
        with ui.element("section").classes("fb-panel").props('aria-label="The loop"'):
            with ui.element("div").classes("fb-scroll").props('tabindex="0"'):
                self._picture = LoopPicture({"facts": {}, "flows": {}}).style("min-width: 760px")
            text = "Each box leads to the view behind it. Figures are of the last seconds."
            tag("div", text, "note")
        with ui.element("div").classes("fb-two"):
            with panel("Latest decisions and their reasons"):
                self._decisions = ui.element("div")
            with panel("Latest adjustments", "predicted and measured gain"):
                self._adjustments = ui.element("div")
        await self.refresh(await self._page.feed.picture())

    async def refresh(self, picture: Picture) -> None:
        """Read everything again and draw it."""
        self.drawn_s = time.monotonic()
        page = self._page
        sensors = await page.calls.get("telemetry/sensors")
        forecast = await page.feed.outlook()
        starts, _time_s = await page.feed.starts()
        decisions = (await page.calls.get("decisions", last=20))["decisions"]
        metrics = await read_metrics(page.api)
        rates = self._rates(metrics)
        acted = [row for row in decisions if row["plan"] or row.get("adjusted")]
        adjusted = await self._latest_adjustments(picture.seq)
        self._picture.set(
            {
                "facts": {
                    "monitor": _monitor_facts(sensors),
                    "predict": _predict_facts(forecast, len(starts)),
                    "schedule": _schedule_facts(metrics, acted),
                    "tune": _tune_facts(adjusted, forecast),
                    "engine": _engine_facts(picture),
                    "journal": [f"{picture.seq:,} events", f"{rates['events']:.1f} events/s"],
                },
                "flows": {
                    "samples": f"{_samples_per_s(sensors):.1f} samples/s",
                    "forecasts": f"{len(forecast['loads'])} series of load",
                    "plans": f"{rates['decisions']:.2f} decisions/s",
                    "orders": f"{len(adjusted)} adjustments",
                    "events": f"{rates['events']:.1f} events/s",
                    "starts": f"{picture.running:,} run",
                },
            }
        )
        self._show_lists(acted, adjusted)

    def _show_lists(
        self, acted: Sequence[Mapping[str, Any]], adjusted: Sequence[Sequence[str]]
    ) -> None:
        with again(self._decisions):
            rows = [
                (f"{row['number']:,}", moment(row["time_us"] / US), summary(row["plan"]),
                 ", ".join(_reasons(row)))
                for row in reversed(acted[-8:])
            ]  # fmt: skip
            if rows:
                table(("Decision", "When", "Actions", "Reasons"), rows, (0,), "Decisions")
            else:
                tag("div", "None yet: submit a job.", "note")
        with again(self._adjustments):
            if adjusted:
                names = ("When", "Job", "What", "Predicted", "Measured")
                table(names, adjusted[:8], (3, 4), "Adjustments")
            else:
                tag("div", "None yet: flyball up --tune elastic,power lets tuners act.", "note")

    def _rates(self, metrics: Mapping[str, float]) -> dict[str, float]:
        now_s = time.monotonic()
        before_s, before = self._before or (now_s - 1.0, dict(metrics))
        self._before = now_s, dict(metrics)

        def rate(name: str) -> float:
            return (metrics.get(name, 0.0) - before.get(name, 0.0)) / max(now_s - before_s, 1e-3)

        return {
            "events": rate("flyball_events_total"), "decisions": rate("flyball_decisions_total")
        }  # fmt: skip

    async def _latest_adjustments(self, seq: int) -> list[list[str]]:
        """Return the latest resizes and caps with their gains, newest first."""
        after = max(0, seq - 5_000)
        events = (
            await self._page.calls.get("events", after=after, kind=list(ADJUSTED), limit=10_000)
        )["events"]
        rows = []
        receipts: dict[int, Mapping[str, Any]] = {}
        for event in list(reversed(events))[:20]:
            job = int(event["job"])
            if job not in receipts and len(receipts) < 8:
                receipts[job] = await self._page.calls.get(f"jobs/{job}/receipt")
            rows.append(_adjustment_row(event, receipts.get(job, {})))
        return rows


def _adjustment_row(event: Mapping[str, Any], receipt: Mapping[str, Any]) -> list[str]:
    at_s = event["time_us"] / US
    log = (receipt.get("tuning") or {}).get("log", [])
    entry: Mapping[str, Any] = next((row for row in log if abs(row["time"] - at_s) < 0.01), {})
    what = f"to {event['devices']}" if event["kind"] == "resized" else f"cap {event['share']:.0%}"
    gain, measured = event.get("gain"), entry.get("measured")
    return [
        moment(at_s), str(event["job"]), f"{what} ({event.get('reason') or ''})",
        f"{gain:.3g}" if gain is not None else "-",
        f"{measured:+.1%} speed" if measured is not None else "not yet",
    ]  # fmt: skip


def _samples_per_s(sensors: Mapping[str, Any]) -> float:
    if not sensors["alive"]:
        return 0.0
    return sum(1.0 / float(row["period_s"]) for row in sensors["sensors"] if row["period_s"])


def _monitor_facts(sensors: Mapping[str, Any]) -> list[str]:
    live = [row for row in sensors["sensors"] if row["kind"] != "absent"]
    if not sensors["alive"]:
        return ["no agent runs"]
    absent = len(sensors["sensors"]) - len(live)
    return [f"{len(live)} sensors", f"{absent} absent" if absent else "all present"]


def _predict_facts(forecast: Mapping[str, Any], starts: int) -> list[str]:
    report = forecast["predictions"]
    skills = [
        lead["rmae"]
        for series in report.get("loads", [])
        for lead in series.get("leads", [])
        if lead["rmae"] is not None
    ]
    facts = [f"{starts:,} expected starts"]
    if skills:
        facts.append(f"error {sum(skills) / len(skills):.2f} x naive")
    else:
        facts.append("too early to judge")
    return facts


def _schedule_facts(metrics: Mapping[str, float], acted: Sequence[Mapping[str, Any]]) -> list[str]:
    cycles, busy_s = (
        metrics.get("flyball_cycles_total", 0.0),
        metrics.get("flyball_cycle_seconds_total", 0.0),
    )
    counts = Counter(reason for row in acted for reason in _reasons(row))
    common = ", ".join(reason for reason, _count in counts.most_common(1))
    facts = [f"{metrics.get('flyball_decisions_total', 0):,.0f} decisions"]
    if cycles:
        facts.append(f"{busy_s / cycles * 1e3:.1f} ms a cycle")
    return [*facts, f"mostly {common}"] if common else facts


def _reasons(row: Mapping[str, Any]) -> list[str]:
    numbers = {int(action[5]) for action in [*row["plan"], *(row.get("adjusted") or [])]}
    return sorted(
        Reason(number).name.lower().replace("_", "-")
        for number in numbers
        if number in list(Reason)
    )


def _tune_facts(adjusted: Sequence[Sequence[str]], forecast: Mapping[str, Any]) -> list[str]:
    facts = [f"{len(adjusted)} lately"] if adjusted else ["none lately"]
    if forecast["left_out"]:
        facts.append(f"{len(forecast['left_out'])} not possible here")
    return facts


def _engine_facts(picture: Picture) -> list[str]:
    table = picture.devices
    return [
        f"{picture.running:,} jobs run", f"{table.held:,} of {len(table.job):,} devices",
        f"{table.total_w:,.0f} W, {table.power_source}",
    ]  # fmt: skip
