"""Learning: the policy in use with its settings and fingerprint, and what is learnt from jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.knobs import Knobs
from flyball.web.feed import Feed
from flyball.web.frame import frame, tag
from flyball.web.parts import facts, moment, panel, table

US = 1e6


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/learning")
    async def learning_page(request: Request) -> None:
        with frame(api, feed, request, "Learning", "/learning") as page:
            opened = (await page.calls.get("events", kind="opened", limit=10_000))["events"]
            forecast = (await page.feed.outlook()).forecast
            with panel("Policy in use"):
                _policy(opened[-1])
            with panel("Learnt beside the control plane"):
                _learnt(forecast["predictions"])
            with panel("Policies of earlier starts", "newest first"):
                rows = [
                    (moment(event["time_us"] / US), event["version"], event["policy"],
                     fingerprint(event), ", ".join(event.get("tuners") or []) or "none")
                    for event in reversed(opened[-20:])
                ]  # fmt: skip
                names = ("Start", "Version", "Policy", "Fingerprint", "Tuners")
                table(names, rows, (), "Policies of earlier starts")
            page.every_second(lambda picture: None)


def fingerprint(opened: Mapping[str, Any]) -> str:
    """Return a digest of what decides: policy, knobs, tuners and their settings."""
    parts = [opened["policy"], opened["knobs"], opened.get("tuners"), opened.get("tuner_settings")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def _policy(opened: Mapping[str, Any]) -> None:
    defaults = Knobs().as_dict()
    changed = {
        name: value for name, value in opened["knobs"].items() if defaults.get(name) != value
    }
    facts(
        {
            "Policy": opened["policy"], "Fingerprint": fingerprint(opened),
            "Since": moment(opened["time_us"] / US), "Version": opened["version"],
            "Tuners": ", ".join(opened.get("tuners") or []) or "none",
            "Settings of tuners": ", ".join(opened.get("tuner_settings") or []),
            "Pathways": opened.get("pathways") or "off",
        }
    )  # fmt: skip
    if changed:
        rows = [(name, str(value), str(defaults.get(name, ""))) for name, value in changed.items()]
        table(("Knob", "Value", "Default"), rows, (), "Knobs that differ from their defaults")
    text = "It is a preset of knobs: no learned policy decides here. "
    tag("p", text + "Compare policies on your own history under What if.", "note")


def _learnt(report: Mapping[str, Any]) -> None:
    worker = report.get("worker", {})
    runs = report.get("run_times", {})
    loads = report.get("loads", [])
    fitted = [row["series"] for row in loads if row.get("leads")]
    facts(
        {
            "Worker": "runs" if worker.get("alive") else "does not run",
            "Run times": f"{runs['model']}, from {runs['learnt']:,} jobs" if runs else "",
            "Loads": f"{', '.join(fitted) or 'none yet'} fitted of {len(loads)}" if loads else "",
            "Remark": report.get("note", ""),
        }
    )  # fmt: skip
