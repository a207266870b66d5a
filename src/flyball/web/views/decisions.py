"""Decisions: what was decided and why, what tuners made of it, and whether it comes out again."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.control.plane import JOURNAL
from flyball.core.codes import ActionKind, Reason
from flyball.core.units import duration_text
from flyball.web.background import Background, Busy
from flyball.web.feed import Feed, Picture
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.parts import again, button, empty, link, moment, panel, table

SHOWN = 60
IN_WATTS = ("cap", "sleep", "wake")
"""Actions whose predicted gain is in watts; of others it is in the unit of the policy's order."""
US = 1e6


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/decisions", response_timeout=PATIENCE_S)
    async def decisions_page(request: Request) -> None:
        with frame(api, feed, request, "Decisions", "/decisions") as page:
            view = _DecisionsView(page)
            await view.refresh()

            async def show(picture: Picture) -> None:
                if picture.seq != view.seq and time.monotonic() - view.drawn_s > 2:
                    view.seq = picture.seq
                    await view.refresh()

            page.every_second(show)

    @ui.page("/decisions/{number}", response_timeout=PATIENCE_S)
    async def decision_page(request: Request, number: int) -> None:
        with frame(api, feed, request, f"Decision {number:,}", "/decisions") as page:
            rows = (await page.calls.get("decisions", after=max(0, number - 1), limit=1))[
                "decisions"
            ]
            if not rows or rows[0]["number"] != number:
                with empty(f"There is no decision {number:,}."):
                    link("All decisions", "/decisions")
                return
            with panel("What was decided"):
                _show(rows[0], is_open=True)
            with panel("Alternatives", "what other policies would have done with what it saw"):
                _Alternatives(page, number)
            with ui.element("div").classes("fb-row"):
                if number > 1:
                    link("The one before", f"/decisions/{number - 1}")
                link("The next one", f"/decisions/{number + 1}")
                link("All decisions", "/decisions")
            page.every_second(lambda picture: None)


class _Alternatives:
    """What a decision weighed: plans of other policies, their gain, and why jobs waited."""

    def __init__(self, page: Page, number: int) -> None:
        self._page, self._number = page, number
        self._box = ui.element("div")
        with self._box:
            self._state = tag("div", "deciding again under other policies ...", "note")
            self._state.props("role=status")
        ui.timer(0.1, self._weigh, once=True)

    async def _weigh(self) -> None:
        folder: Path = self._page.api.state.bridge.settings.token_folder
        question = {"journal": str(folder / JOURNAL), "number": self._number}
        try:
            run = Background(["-m", "flyball.web.alternatives_run"], json.dumps(question))
        except Busy as error:
            self._state.set_text(f"{error}, then load this page again")  # type: ignore[attr-defined]
            return
        while not await run.ended(0.5):
            pass
        answer = run.json() or {}
        with again(self._box):
            if "alternatives" in answer:
                _show_weighed(answer)
            else:
                with empty("The decision could not be made again."):
                    tag("div", str(answer.get("error") or run.error_text()))


def _show_weighed(answer: Mapping[str, Any]) -> None:
    decided = answer["alternatives"][0]
    rows = []
    for row in answer["alternatives"]:
        same = "the same" if row["is_same"] else summary(row["plan"])
        wait = duration_text(row["wait_s"]) if row["wait_s"] is not None else "-"
        what = "decided" if row is decided else same
        rows.append((row["policy"], what, wait, _change_text(row["change_s"])))
    columns = ("Policy", "Would do", "Mean time to start", "Against the decision")
    table(columns, rows, (2, 3), "Alternatives")
    count = answer["waiting"]
    text = (
        f"Of the {count:,} job{'s' * (count != 1)} that waited, by roll-outs of the twin from what "
        "the decision saw, with run times drawn around the estimates and nothing new submitted; "
        "95 % interval over the roll-outs. Less is better."
    )
    tag("div", text, "note")
    if answer["waits"]:
        tag("h2", "Why the next jobs of the queue were not started")
        cells = [
            (lambda job=job: link(str(job), f"/jobs/{int(job)}"), token, sentence)
            for job, token, sentence in answer["waits"]
        ]
        table(("Job", "Reason", "In words"), cells, (), "Jobs that waited")


def _change_text(change: Sequence[float] | None) -> str:
    if change is None:
        return ""
    mean, low, high = (signed_duration(value) for value in change)
    return f"{mean} ({low} to {high})"


def signed_duration(seconds: float) -> str:
    """Return a difference of times with its sign."""
    if abs(seconds) < 0.05:
        return "0 s"
    return ("+" if seconds > 0 else "-") + duration_text(abs(seconds))


class _DecisionsView:
    """The latest decisions, newest first."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.seq, self.drawn_s = -1, 0.0
        self._newest = -1
        with panel("Verify"):
            text = (
                "Makes every recorded decision again from the journal, with the same compiled "
                "code, and compares: none may differ."
            )
            tag("p", text, "note")
            with ui.element("div").classes("fb-row"):
                button("Make them again", self._verify, "fact_check", "main")
                self._verdict = tag("span", "").props("role=status")
        with panel("Latest decisions", f"the last {SHOWN} with actions"):
            self._list = ui.element("div")

    async def refresh(self) -> None:
        """Show the decisions again if there are new ones."""
        self.drawn_s = time.monotonic()
        rows = (await self._page.calls.get("decisions", last=SHOWN * 3))["decisions"]
        newest = rows[-1]["number"] if rows else 0
        if newest == self._newest:
            return
        self._newest = newest
        acted = [row for row in reversed(rows) if row["plan"] or row.get("adjusted")][:SHOWN]
        with again(self._list):
            if not acted:
                with empty("Nothing was decided yet."):
                    tag("div", "A decision is made when a job comes or ends, and in rounds.")
            for row in acted:
                _show(row)

    async def _verify(self) -> None:
        folder = self._page.api.state.bridge.settings.token_folder
        arguments = ["-m", "flyball", "replay", "--decisions", str(folder), "--json"]
        self._say("making them again ...")
        began_s = time.monotonic()
        run = Background(arguments)
        while not await run.ended(1.0):
            self._say(f"making them again, {duration_text(time.monotonic() - began_s)} ...")
        verdict = run.json()
        if verdict is None:
            self._say(f"could not be verified: {run.error_text()}")
            return
        differ = verdict["differ"]
        result = "equal" if not differ else f"{differ} DIFFER: {verdict['differing'][:5]}"
        took = duration_text(time.monotonic() - began_s)
        self._say(
            f"{verdict['decisions']:,} decisions with {verdict['actions']:,} actions made again in "
            f"{took}: {'all ' if not differ else ''}{result}"
        )

    def _say(self, text: str) -> None:
        self._verdict.set_text(text)  # type: ignore[attr-defined]


def _show(row: Mapping[str, Any], is_open: bool = False) -> None:
    """Add one decision, folded or open."""
    actions = [*row["plan"], *(row.get("adjusted") or [])]
    with ui.element("details").classes("fb-decision") as box:
        if is_open:
            box.props("open")
        with ui.element("summary").style("cursor: pointer"):
            tag("strong", f"{row['number']:,}")
            what = f" {moment(row['time_us'] / US)} · {summary(row['plan'])}"
            if row.get("adjusted"):
                what += f" · tuners: {summary(row['adjusted'])}"
            tag("span", what)
        how = "round: running jobs could be preempted" if row["is_round"] else "between two rounds"
        more = f"saw events up to {row['seen']:,}; {how}; fingerprint {row['digest'][:12]}"
        if row.get("pathway"):
            more += f"; followed the pathway {row['pathway']}"
        with ui.element("div").classes("note"):
            tag("span", f"{more}. ")
            if not is_open:
                link("Alternatives", f"/decisions/{int(row['number'])}")
        names = ("Action", "Job", "Node", "Devices", "Reason", "Predicted gain")
        rows = [_action_row(action) for action in actions[:200]]
        table(names, rows, (3, 5), "Actions").classes("fb-tall")
        if row.get("signals"):
            tag("div", f"It saw: {signals_text(row['signals'])}.", "note")


SEEN_AS = {
    "price_per_kwh": "price of a kWh {:.3g}", "carbon_g_per_kwh": "{:.0f} g CO2 per kWh",
    "limit_w": "limit of the draw {:,.0f} W", "drawn_w": "drawn {:,.0f} W",
    "money_spent": "{:,.2f} spent today", "carbon_g_spent": "{:,.0f} g CO2 today",
}  # fmt: skip


def signals_text(values: Mapping[str, float]) -> str:
    """Return prices, limits and the account of the day that a decision saw."""
    return ", ".join(form.format(values[name]) for name, form in SEEN_AS.items() if name in values)


def summary(actions: Sequence[Sequence[Any]]) -> str:
    """Return what a plan does, in a few words."""
    jobs: dict[str, set[int]] = {}
    for action in actions:
        jobs.setdefault(_kind(action), set()).add(int(action[1]))
    return ", ".join(f"{kind} {len(ids)}" for kind, ids in jobs.items()) or "no action"


def _kind(action: Sequence[Any]) -> str:
    kind = int(action[0])
    return ActionKind(kind).name.lower() if kind in list(ActionKind) else str(kind)


def _action_row(action: Sequence[Any]) -> list[Any]:
    """Return the cells of one action: kind, job, node, mask, level, reason, gain."""
    kind = _kind(action)
    job, node, mask, _level, reason, gain = action[1:7]
    number = int(reason)
    words = Reason(number).name.lower().replace("_", "-") if number in list(Reason) else ""
    text = f"{gain:,.3g}{' W' * (kind in IN_WATTS)}" if gain else ""
    if kind == "reserve" and gain:
        text = f"kept until {moment(gain / US)}"
    open_job = (lambda: link(str(job), f"/jobs/{int(job)}")) if int(job) > 0 else ""
    count = int(mask).bit_count()
    return [kind, open_job, node if node >= 0 else "", count or "", words, text]
