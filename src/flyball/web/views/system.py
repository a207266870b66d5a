"""System: sensors, engine, journal, versions, and what `flyball doctor` says."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball import __version__
from flyball.core.units import duration_text
from flyball.web.background import Background
from flyball.web.feed import Feed
from flyball.web.frame import PATIENCE_S, frame, tag
from flyball.web.metrics import read_metrics
from flyball.web.parts import again, button, facts, panel, state_badge, table


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/system", response_timeout=PATIENCE_S)
    async def system_page(request: Request) -> None:
        with frame(api, feed, request, "System", "/system") as page:
            health = await page.calls.get("healthz")
            sensors = await page.calls.get("telemetry/sensors")
            metrics = await read_metrics(api)
            with ui.element("div").classes("fb-two"):
                with panel("Control plane"):
                    _control_plane(health, metrics)
                with panel("Doctor", "what this machine offers, and what is missing"):
                    box = ui.element("div")

                    async def examine() -> None:
                        with again(box):
                            tag("div", "examining ...", "note")
                        run = Background(["-m", "flyball", "doctor"])
                        while not await run.ended(1.0):
                            pass
                        with again(box):
                            tag("pre", "\n".join(run.lines()) or run.error_text()).style(
                                "white-space: pre-wrap; font-size: 13px"
                            )

                    button("Examine this machine", examine, "medical_services")
            with panel("Sensors", _agent_text(sensors)):
                _sensors(sensors)
            page.every_second(lambda picture: None)


def _control_plane(health: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    checks = health["checks"]
    cycles = metrics.get("flyball_cycles_total", 0)
    busy_s = metrics.get("flyball_cycle_seconds_total", 0.0)
    facts(
        {
            "Journal": lambda: _check(str(checks.get("journal"))),
            "Loop": lambda: _check(str(checks.get("loop"))),
            "Events": f"{metrics.get('flyball_events_total', 0):,.0f}",
            "Commits": f"{metrics.get('flyball_commits_total', 0):,.0f}",
            "Decisions": f"{metrics.get('flyball_decisions_total', 0):,.0f}",
            "Cycles": f"{cycles:,.0f}, {busy_s / cycles * 1e3:.2f} ms each" if cycles else "",
            "Longest cycle": duration_text(metrics.get("flyball_cycle_worst_seconds", 0.0)),
            "Failed cycles": f"{metrics.get('flyball_cycle_failures_total', 0):,.0f}",
            "Version": f"Flyball {__version__}, Python {platform.python_version()}",
            "System": f"{platform.system()} {platform.release()}",
        }
    )  # fmt: skip


def _check(result: str) -> None:
    state_badge("COMPLETED" if result == "ok" else "FAILED", result)


def _agent_text(sensors: Mapping[str, Any]) -> str:
    if not sensors["alive"]:
        return "no agent runs, as with virtual nodes"
    return "the agent runs" + (" at its fastest rates" if sensors["fast"] else "")


def _sensors(sensors: Mapping[str, Any]) -> None:
    rows = [
        (
            row["name"], row["family"], row["kind"],
            f"{row['period_s']:g} s" if row["period_s"] else "",
            f"{row['took_us']:,} µs" if row["took_us"] is not None else "",
            f"{row['failures']}" if row["failures"] else "",
            row["absent"] or row["error"] or row["source"],
        )
        for row in sensors["sensors"]
    ]  # fmt: skip
    if not rows:
        tag("div", "Nothing is measured: flyball up starts an agent on real machines.", "note")
        return
    columns = ("Sensor", "Family", "Kind", "Every", "Takes", "Failures", "Source or why not")
    table(columns, rows, (3, 4, 5), "Sensors")
