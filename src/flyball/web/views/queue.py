"""Queue: who waits for what, when each job is expected to start, and what can be done about it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.core.job_fields import MAX_DEVICES
from flyball.web.components.elements import QueueGrid
from flyball.web.feed import Feed, Picture
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.job_actions import CAP_HELP, CAP_RANGE, PRIORITIES, PRIORITY_HELP
from flyball.web.parts import ask_number, attempt, button, link, question, say
from flyball.web.views.submit import SubmitDialog

MOST_AT_ONCE = 1000
"""Maximum number of jobs that one click holds or releases."""


def register(api: FastAPI, feed: Feed) -> None:
    """Add the page."""

    @ui.page("/queue", response_timeout=PATIENCE_S)
    async def queue_page(request: Request, search: str = "") -> None:
        with frame(api, feed, request, "Queue", "/queue") as page:
            _QueueView(page, search[:200])


class _QueueView:
    """The grid with its actions."""

    def __init__(self, page: Page, search: str) -> None:
        self._page = page
        self._selected: list[int] = []
        self._seq, self._starts_s = -1, 0.0
        refusal = page.rights.refusal
        dialog = SubmitDialog(page) if not refusal else None
        with ui.element("div").classes("fb-row"):
            submit = button(
                "Submit a job", dialog.open if dialog else lambda: None, "add", "main", refusal
            )
            submit.props("data-key-n")
            self._actions = [
                button("Cancel", self._cancel, "cancel", "bad", refusal),
                button("Hold", self._hold, "pause", "", refusal),
                button("Release", self._release, "play_arrow", "", refusal),
                button("Priority", self._prioritise, "low_priority", "", refusal),
                button("Resize", self._resize, "open_in_full", "", refusal),
                button("Cap", self._cap, "speed", "", refusal),
            ]
            self._note = tag("span", "Select jobs to act on them.", "note")
            link("Ended jobs", "/jobs").style("margin-left: auto")
        if search:
            with ui.element("div").classes("fb-notice"):
                tag("span", f"Only jobs that contain “{search}”. ")
                link("Show all", "/queue")
        self._grid = QueueGrid(search, self._take_selection)
        page.every_second(self._show)

    def _take_selection(self, jobs: list[int]) -> None:
        self._selected = jobs
        count = len(jobs)
        text = f"{count:,} selected" if count else "Select jobs to act on them."
        self._note.set_text(text)  # type: ignore[attr-defined]

    async def _show(self, picture: Picture) -> None:
        if picture.seq != self._seq:
            self._seq = picture.seq
            self._grid.changed()
        starts, time_s = await self._page.feed.starts()
        if time_s != self._starts_s:
            self._starts_s = time_s
            self._grid.set_starts(starts)

    # Actions ----------------------------------------------------------------------------

    async def _cancel(self) -> None:
        jobs = self._chosen()
        if not jobs or not await question(
            f"Cancel {_count(jobs)}?",
            "Running ones are stopped and lose what they have not saved. This cannot be undone.",
            f"Cancel {_count(jobs)}",
        ):
            return
        await self._each(jobs, lambda job: self._page.calls.delete(f"jobs/{job}"), "cancelled")

    async def _hold(self) -> None:
        jobs = self._chosen()
        await self._each(jobs, lambda job: self._page.calls.post(f"jobs/{job}/hold"), "held")

    async def _release(self) -> None:
        jobs = self._chosen()
        await self._each(jobs, lambda job: self._page.calls.post(f"jobs/{job}/release"), "released")

    async def _prioritise(self) -> None:
        await self._order("priority", "priority", PRIORITY_HELP, PRIORITIES, 0)

    async def _resize(self) -> None:
        text = "Devices of each; only jobs that state a range of sizes (--elastic) can be resized"
        await self._order("resize", "devices", text, (1, MAX_DEVICES, 1), 1)

    async def _cap(self) -> None:
        await self._order("cap", "share", CAP_HELP, CAP_RANGE, 100)

    async def _order(
        self, what: str, field: str, text: str, bounds: tuple[float, float, float], value: float
    ) -> None:
        """Ask for a number and order it for every selected job."""
        jobs = self._chosen()
        if not jobs:
            return
        number = await ask_number(f"{what.capitalize()} of {_count(jobs)}", text, bounds, value)
        if number is None:
            return
        body = {field: number / 100 if field == "share" else number}
        if field == "devices":
            body = {field: round(number)}
        done = f"{what} {number:g}"
        await self._each(jobs, lambda job: self._page.calls.post(f"jobs/{job}/{what}", body), done)

    def _chosen(self) -> list[int]:
        if not self._selected:
            say("Select jobs first, by the boxes at the left or with the space bar.")
        return self._selected[:MOST_AT_ONCE]

    async def _each(self, jobs: list[int], act: Callable[[int], Awaitable[Any]], what: str) -> None:
        """Do something to each job; stop at the first refusal, which is shown."""
        began_s = time.monotonic()
        for done, job in enumerate(jobs):
            last = done == len(jobs) - 1
            text = f"{_count(jobs)}: {what}" if last else ""
            if await attempt(lambda job=job: act(job), text) is None:  # type: ignore[misc]
                return
            if time.monotonic() - began_s > 1:
                self._note.set_text(f"{done + 1} of {len(jobs)} {what}")  # type: ignore[attr-defined]
        self._grid.select_none()


def _count(jobs: list[int]) -> str:
    return f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} jobs"
