"""Job: what one job asked for, what became of it, what it prints and uses, and what it cost."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.units import duration_text
from flyball.web.calls import Refused
from flyball.web.components.elements import Chart, JobLog
from flyball.web.feed import Feed, Picture
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.job_actions import add_actions
from flyball.web.job_history import changes_of, history_rows, timeline_options
from flyball.web.parts import again, ago, empty, facts, link, moment, panel, state_badge, table

ACTIVE = ("PENDING", "RUNNING", "COMPLETING")
SERIES_S = 3600.0
MEMORY = "Memory (MiB)"
WHY_S, WHY_SHARE = 5.0, 0.05
"""Least time between two explanations of a wait, and the largest part of a core they may take."""
LATE_S = 5.0
"""How often the charts of a running job are drawn again."""


def register(api: FastAPI, feed: Feed) -> None:
    """Add the pages of one job and of the ended jobs."""

    @ui.page("/jobs/{job}", response_timeout=PATIENCE_S)
    async def job_page(request: Request, job: str) -> None:
        label = job if job.replace("_", "").isdigit() else ""
        with frame(api, feed, request, f"Job {label}", "/queue") as page:
            try:
                view = await page.calls.get(f"jobs/{label or 0}")
            except Refused as error:
                with empty(f"There is no job {label or 'of that name'}."):
                    tag("div", error.remedy or "Search by its number or name, or see the queue.")
                    link("The queue", "/queue")
                return
            await _JobView(page, view).build()

    @ui.page("/jobs", response_timeout=PATIENCE_S)
    async def jobs_page(request: Request, cursor: str = "", name: str = "") -> None:
        with frame(api, feed, request, "All jobs", "/queue") as page:
            clean = "".join(letter for letter in cursor if letter.isdigit())[:16]
            listed = await page.calls.get("jobs", limit=100, cursor=clean, name=name[:200])
            _list_jobs(listed)
            page.every_second(lambda picture: None)


def _list_jobs(listed: Mapping[str, Any]) -> None:
    if not listed["jobs"]:
        with empty("No job was submitted yet."):
            tag("code", "flyball submit -- python train.py")
        return
    rows = [
        (
            lambda job=job: link(job["label"], f"/jobs/{job['id']}"), job["name"],
            lambda job=job: state_badge(job["state"]), job["user"],
            moment(job["submit_time"]), _length(job["submit_time"], job["start_time"]),
            _length(job["start_time"], job["end_time"]), job["reason"] or "",
        )
        for job in listed["jobs"]
    ]  # fmt: skip
    with ui.element("section").classes("fb-panel"):
        names = ("Job", "Name", "State", "User", "Submitted", "Waited", "Ran", "Reason")
        table(names, rows, (5, 6), "Jobs, newest first")
    if listed["next"]:
        link("Earlier jobs", f"/jobs?cursor={int(listed['next'])}")


class _JobView:
    """The page of one job."""

    def __init__(self, page: Page, view: dict[str, Any]) -> None:
        self._page, self._job = page, view
        self._seq, self._drawn_s = -1, 0.0
        self._charts: dict[str, Chart] | None = None
        self._wants_why, self._why_after_s = False, 0.0

    async def build(self) -> None:
        job = self._job
        with ui.element("div").classes("fb-row"):
            self._state = ui.element("span")
            tag("strong", job["name"] or shlex.join(job["spec"]["argv"])[:80])
            tag("span", f"of {job['user'] or '(no name)'}", "note")
            add_actions(self._page, job)
        self._why = ui.element("div")
        with ui.element("div").classes("fb-two"):
            with panel("Timeline", "devices it held"):
                self._timeline = Chart({}, "Devices that the job held over time, by attempt")
                self._timeline.classes("low")
                self._facts = ui.element("div")
            with panel("Receipt"):
                self._receipt = ui.element("div")
        self._uses = ui.element("section").classes("fb-panel")
        with panel("Log"):
            JobLog(job["id"])
            if job["spec"].get("stderr") not in (None, "", job["spec"].get("stdout")):
                tag("h2", "Error output")
                JobLog(job["id"], stream="stderr")
        with panel("Decisions about it"):
            self._decisions = ui.element("div")
        with panel("Request"):
            facts(_request(job))
        await self._refresh()
        self._page.every_second(self._tick)
        ui.timer(1.0, self._explain)

    async def _tick(self, picture: Picture) -> None:
        active = self._job["state"] in ACTIVE
        if picture.seq != self._seq and (active or self._seq < 0):
            self._seq = picture.seq
            await self._refresh()
        elif self._job["state"] == "RUNNING" and time.monotonic() - self._drawn_s > LATE_S:
            await self._draw_use()

    async def _explain(self) -> None:
        """Say why it waits. That takes roll-outs of the twin, so it is asked for now and then."""
        began_s = time.monotonic()
        if not self._wants_why or began_s < self._why_after_s or self._job["state"] != "PENDING":
            return
        self._wants_why, self._why_after_s = False, math.inf
        try:
            why = await self._page.calls.get(f"jobs/{self._job['id']}/why")
            if self._job["state"] == "PENDING":
                with again(self._why):
                    _explain(why)
        finally:
            now_s = time.monotonic()
            self._why_after_s = now_s + max(WHY_S, (now_s - began_s) / WHY_SHARE)

    async def _refresh(self) -> None:
        calls, number = self._page.calls, self._job["id"]
        self._job = await calls.get(f"jobs/{number}")
        events = (await calls.get("events", job=number, limit=1000))["events"]
        job = self._job
        with again(self._state):
            state_badge("PENDING" if job["held"] else job["state"], "held" if job["held"] else "")
        if job["state"] == "PENDING":
            self._wants_why = True
        else:
            with again(self._why):
                if job["reason"]:
                    tag("div", f"Reason: {job['reason']}", "fb-notice")
        self._timeline.set(timeline_options(job, events, time.time()))
        with again(self._facts):
            facts(_times(job))
        receipt = await calls.get(f"jobs/{number}/receipt")
        with again(self._decisions):
            rows = changes_of(events, (receipt.get("tuning") or {}).get("log", []))
            if rows:
                names = ("When", "What", "Why", "Predicted gain", "Measured gain")
                table(names, [_linked(row) for row in rows], (3, 4), "Decisions")
            else:
                tag("div", "None yet: it waits for its first start.", "note")
        with again(self._receipt):
            facts(history_rows(receipt))
        await self._draw_use()

    async def _draw_use(self) -> None:
        """Draw what it uses and reports, as far as it is measured."""
        self._drawn_s = time.monotonic()
        number = self._job["id"]
        names = {
            f"jobs.{number}.cpu_s_per_s": "Cores used",
            f"jobs.{number}.memory_bytes": MEMORY,
        }
        for name in self._job["progress"] or {}:
            names[f"application.{number}.{name}"] = name
        series: dict[str, Any] = {}
        for name, title in list(names.items())[:8]:
            try:
                measured = self._page.calls.get("telemetry/series", name=name, seconds=SERIES_S)
                series[title] = await measured
            except Refused:
                continue
        series = {title: one for title, one in series.items() if len(one["times"]) > 1}
        if self._charts is None or set(series) != set(self._charts):
            with again(self._uses):
                tag("h2", "Use and reports")
                if not series:
                    text = (
                        "Nothing measured yet." if self._job["attempts"] else "It has not run yet."
                    )
                    with empty(text):
                        tag("div", "A job reports steps and losses with")
                        tag("code", "flyball.report(step=10, loss=0.3)")
                self._charts = {}
                with ui.element("div").classes("fb-uses"):
                    for title in series:
                        with ui.element("div"):
                            tag("div", title, "note")
                            self._charts[title] = Chart({}, f"{title} of the job over time")
                            self._charts[title].classes("low")
        for title, chart in self._charts.items():
            chart.set(_line(series[title], title == MEMORY))


def _linked(row: Sequence[str]) -> list[Any]:
    """Return a row in which the decision that is named as the reason is a link."""
    when, what, why, *gains = row
    number = why.removeprefix("decision ")
    if number != why and number.isdigit():
        return [when, what, lambda: link(why, f"/decisions/{int(number)}"), *gains]
    return [when, what, why, *gains]


def _line(series: Mapping[str, Sequence[float]], is_memory: bool) -> dict[str, Any]:
    scale = 2**-20 if is_memory else 1.0
    step = max(1, len(series["times"]) // 600)
    points = [
        [round(at * 1000), value * scale]
        for at, value in list(zip(series["times"], series["values"], strict=True))[::step]
        if value is not None
    ]
    return {
        "grid": {"left": 52, "right": 10, "top": 14, "bottom": 22},
        "tooltip": {"trigger": "axis", "valueFormatter": "$number"},
        "xAxis": {"type": "time"},
        "yAxis": {"type": "value", "scale": True, "splitNumber": 3},
        "series": [{"type": "line", "showSymbol": False, "data": points,
                    "lineStyle": {"color": "--c1", "width": 2}}],
    }  # fmt: skip


def _explain(why: Mapping[str, Any]) -> None:
    """Add why it waits, what would help, and when it starts."""
    with ui.element("div").classes("fb-notice warn"):
        tag("strong", why["sentence"])
        if why.get("p50_s") is not None:
            p50, p90 = duration_text(why["p50_s"]), duration_text(why["p90_s"])
            tag("div", f"Half of such jobs start within {p50}, nine of ten within {p90}.")
        if why.get("ahead_count"):
            tag("div", f"{why['ahead_count']:,} jobs are ahead of it.")
        for remedy in why.get("remedies", []):
            tag("div", f"Remedy: {_text(remedy)}")
        for other in why.get("counterfactuals", []):
            tag("div", f"If: {_text(other)}")


def _text(entry: Any) -> str:
    """Return an entry of an answer as a sentence."""
    if not isinstance(entry, Mapping):
        return str(entry)
    words = entry.get("sentence") or entry.get("text") or entry.get("what")
    changes = entry.get("changes")
    if not words and isinstance(changes, Mapping):
        words = ", ".join(f"{name} {value}" for name, value in changes.items())
    words = str(words or ", ".join(f"{name}: {value}" for name, value in entry.items()))
    if entry.get("p50_s") is not None:
        words += f": starts within {duration_text(entry['p50_s'])} (p50)"
    return words


def _length(start: float | None, end: float | None) -> str:
    return "" if start is None or end is None else duration_text(max(0.0, end - start))


def _times(job: Mapping[str, Any]) -> dict[str, Any]:
    progress = ", ".join(
        f"{name} {value:g}" if isinstance(value, int | float) else f"{name} {value}"
        for name, value in (job["progress"] or {}).items()
    )
    return {
        "Submitted": f"{moment(job['submit_time'])} ({ago(job['submit_time'])})",
        "Started": moment(job["start_time"]), "Ended": moment(job["end_time"]),
        "On": job["node"], "Attempts": job["attempts"] if job["attempts"] > 1 else "",
        "Preemptions": job["preemptions"] or "",
        "Exit code": job["exit_code"] if job["exit_code"] is not None else "",
        "Reports": progress,
    }  # fmt: skip


def _request(job: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(job["spec"])
    about = job.get("class") or {}
    shown = {
        "Command": shlex.join(spec.pop("argv")), "Folder": spec.pop("cwd", "/"),
        "Class": f"{about.get('name', '')} ({about.get('reason', '')})" if about else "",
    }  # fmt: skip
    spec.pop("env", None)
    spec.pop("name", None)
    for name, value in spec.items():
        shown[name.replace("_", " ")] = f"{value:g}" if isinstance(value, float) else str(value)
    return shown
