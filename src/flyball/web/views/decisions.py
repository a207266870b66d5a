"""Decisions: what was decided and why, what tuners made of it, and whether it comes out again."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.codes import ActionKind, Reason
from flyball.core.units import duration_text
from flyball.web.background import Background
from flyball.web.feed import Feed, Picture
from flyball.web.frame import Page, frame, tag
from flyball.web.parts import again, button, empty, link, moment, panel, table

SHOWN = 60
US = 1e6


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/decisions")
    async def decisions_page(request: Request) -> None:
        with frame(api, feed, request, "Decisions", "/decisions") as page:
            view = _DecisionsView(page)
            await view.refresh()

            async def show(picture: Picture) -> None:
                if picture.seq != view.seq and time.monotonic() - view.drawn_s > 2:
                    view.seq = picture.seq
                    await view.refresh()

            page.every_second(show)


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


def _show(row: Mapping[str, Any]) -> None:
    """Add one decision, folded."""
    actions = [*row["plan"], *(row.get("adjusted") or [])]
    with ui.element("details").style("border-bottom: 1px solid var(--line); padding: 6px 0"):
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
        tag("div", more, "note")
        table(
            ("Action", "Job", "Node", "Devices", "Reason", "Predicted gain"),
            [_action_row(action) for action in actions[:200]], (3, 5), "Actions",
        )  # fmt: skip
        if row.get("signals"):
            tag("div", f"prices it saw: {row['signals']}", "note")


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
    text = f"{gain:.3g}" if gain else ""
    if kind == "reserve" and gain:
        text = f"kept until {moment(gain / US)}"
    open_job = (lambda: link(str(job), f"/jobs/{int(job)}")) if int(job) > 0 else ""
    count = int(mask).bit_count()
    return [kind, open_job, node if node >= 0 else "", count or "", words, text]
