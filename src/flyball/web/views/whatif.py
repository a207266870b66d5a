"""What if: replay one's own history under other policies, tuners, hardware and budgets."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball.control.plane import JOURNAL
from flyball.core.units import duration_text
from flyball.physics import catalogue
from flyball.schedule.policies.registry import names as policy_names
from flyball.tune.registry import usable
from flyball.web.background import Background, Busy
from flyball.web.feed import Feed
from flyball.web.frame import PATIENCE_S, Page, frame, tag
from flyball.web.kept_runs import KeptRuns
from flyball.web.parts import again, button, empty, link, moment, panel, question, say, table
from flyball.web.whatif_result import (
    FIGURES,
    figures_of,
    question_text,
    show_comparison,
    show_result,
)
from flyball.web.whatif_run import Question

SPANS = {"all of it": 0.0, "last hour": 3600.0, "last day": 86_400.0, "last week": 604_800.0,
         "last 30 days": 2_592_000.0}  # fmt: skip
CHOSEN = ("fifo", "easy", "srtf")
MOST_COMPARED = 8


def register(api: FastAPI, feed: Feed) -> None:
    """Add the pages: the form with the latest runs, and one run."""
    kept = KeptRuns(api.state.bridge.settings.token_folder)

    @ui.page("/whatif", response_timeout=PATIENCE_S)
    async def whatif_page(request: Request) -> None:
        with frame(api, feed, request, "What if", "/whatif") as page:
            _WhatIf(page, kept)
            page.every_second(lambda picture: None)

    @ui.page("/whatif/compare", response_timeout=PATIENCE_S)
    async def compare_page(request: Request, runs: str = "") -> None:
        with frame(api, feed, request, "What if: compared", "/whatif") as page:
            numbers = [int(part) for part in runs.split(",")[:MOST_COMPARED] if part.isdigit()]
            found = [run for number in numbers if (run := kept.get(number)) is not None]
            if found:
                show_comparison(found)
            else:
                with empty("None of these runs is kept."):
                    link("All runs", "/whatif")
            page.every_second(lambda picture: None)

    @ui.page("/whatif/{number}", response_timeout=PATIENCE_S)
    async def run_page(request: Request, number: int) -> None:
        with frame(api, feed, request, f"What if {number}", "/whatif") as page:
            run = kept.get(number)
            if run is None:
                with empty(f"There is no kept run {number}."):
                    link("All runs", "/whatif")
            else:
                show_result(run["question"], run["result"])
            page.every_second(lambda picture: None)


class _WhatIf:
    """The form, the progress and the result."""

    def __init__(self, page: Page, kept: KeptRuns) -> None:
        self._page, self._kept = page, kept
        self._policies = dict.fromkeys(CHOSEN, True)
        self._tuners: dict[str, bool] = {}
        self._values: dict[str, str] = {"span": "all of it"}
        self._run: Background | None = None
        self._chosen: set[int] = set()
        with panel("Question", "runs in the twin, in a process beside the control plane"):
            self._form()
            with ui.element("div").classes("fb-row").style("margin-top: 14px"):
                button("Replay", self._start, "play_arrow", "main", page.rights.refusal)
                self._stop = button("Stop", self._end, "stop")
                self._stop.props("disabled")
                self._progress = tag("span", "").props("role=status")
        self._result = ui.element("div")
        with panel("Kept runs", "newest first"):
            with ui.element("div").classes("fb-row"):
                button("Compare the chosen ones", self._compare, "compare_arrows")
                button("Forget them", self._forget, "delete", "bad", page.rights.refusal)
            self._list = ui.element("div")
        self._show_kept()

    def _form(self) -> None:
        with ui.element("div").classes("fb-form"):
            self._select("span", "Jobs submitted in the", list(SPANS))
            devices = ["as they are", *catalogue.names()]
            self._select("device", "Devices", devices)
            self._input("nodes", "Number of nodes, relative to now", "1", 0.1, 100)
            self._input("budget_w", "Power budget (W); 0 = none", "0", 0, 1e9)
            self._input("seeds", "Runs per policy", "1", 1, 20)
            self._input("noise", "Error of estimates (sigma); 0 = as stated", "0", 0, 3)
        self._boxes("Policies; the first one is compared with", policy_names(), self._policies)
        self._boxes("Tuners", usable(), self._tuners)

    def _select(self, name: str, label: str, options: Sequence[str]) -> None:
        with ui.element("label"):
            tag("span", label)
            with ui.element("select").props(f"name={name}") as box:
                for option in options:
                    tag("option", option)
            box.on("change", lambda sent: self._values.update({name: str(sent.args)}),
                   js_handler="(e) => emit(e.target.value)")  # fmt: skip

    def _input(self, name: str, label: str, value: str, low: float, high: float) -> None:
        with ui.element("label"):
            tag("span", label)
            box = ui.element("input").props(f"type=number name={name} min={low:g} max={high:g}")
            box.props(f'step=any value="{value}"')
            box.on("input", lambda sent: self._values.update({name: str(sent.args)}),
                   js_handler="(e) => emit(e.target.value)")  # fmt: skip

    def _boxes(self, label: str, names: Sequence[str], chosen: dict[str, bool]) -> None:
        with ui.element("fieldset").style("border: 0; padding: 0; margin: 12px 0 0"):
            tag("legend", label, "note")
            with ui.element("div").classes("fb-row"):
                for name in names:
                    with ui.element("label"):
                        box = ui.element("input").props(f'type=checkbox value="{name}"')
                        box.props["checked"] = chosen.get(name, False)
                        tag("span", f" {name}")
                    box.on("change", lambda sent, name=name: chosen.update({name: bool(sent.args)}),
                           js_handler="(e) => emit(e.target.checked)")  # fmt: skip

    def _question(self) -> Question:
        """Return what is asked.

        Raises:
            ValueError: a number is out of range, or no policy is chosen.
        """
        policies = [name for name, on in self._policies.items() if on]
        if not policies:
            raise ValueError("Choose at least one policy.")
        span_s = SPANS[self._values.get("span", "all of it")]
        device = self._values.get("device", "as they are")
        folder: Path = self._page.api.state.bridge.settings.token_folder
        return Question(
            journal=str(folder / JOURNAL),
            since_s=time.time() - span_s if span_s else 0.0,
            policies=",".join(policies),
            tuners=",".join(name for name, on in self._tuners.items() if on),
            device="" if device == "as they are" else device,
            nodes=self._number("nodes", 1, 0.1, 100),
            budget_w=self._number("budget_w", 0, 0, 1e9),
            seeds=int(self._number("seeds", 1, 1, 20)),
            noise=self._number("noise", 0, 0, 3),
        )

    def _number(self, name: str, default: float, low: float, high: float) -> float:
        text = self._values.get(name, "").strip()
        value = float(text) if text else default
        if not low <= value <= high:
            raise ValueError(f"{name.replace('_', ' ')} must be {low:g} to {high:g}.")
        return value

    async def _start(self) -> None:
        if self._run is not None:
            return
        try:
            asked = self._question()
            run = Background(["-m", "flyball.web.whatif_run"], json.dumps(asked.as_dict()))
        except (ValueError, Busy) as error:
            say(str(error), bad=True)
            return
        self._run = run
        self._stop.props(remove="disabled")
        began_s = time.monotonic()
        self._say("reading the history ...")
        try:
            while not await run.ended(0.5):
                self._say(_progress_text(run.lines(), time.monotonic() - began_s))
        finally:
            self._run = None
            self._stop.props("disabled")
        self._conclude(asked, run)

    def _conclude(self, asked: Question, run: Background) -> None:
        last = _last_row(run.lines())
        if "result" not in last:
            self._say(f"It could not be replayed: {last.get('error') or run.error_text()}")
            return
        number = self._kept.add(asked.as_dict(), last["result"])
        self._say(f"done, kept as run {number}")
        with again(self._result):
            show_result(asked.as_dict(), last["result"])
        self._show_kept()

    def _end(self) -> None:
        if self._run is not None:
            self._run.stop()
            self._run = None
            self._say("stopped")

    def _say(self, text: str) -> None:
        self._progress.set_text(text)  # type: ignore[attr-defined]

    def _show_kept(self) -> None:
        runs = self._kept.latest()
        with again(self._list):
            if not runs:
                with empty("No run is kept yet."):
                    tag("div", "Choose what would be different, and press Replay.")
                return
            rows = [
                (
                    lambda run=run, first=row is run["result"]["rows"][0]: self._tick(run, first),
                    lambda run=run: link(f"run {run['number']}", f"/whatif/{run['number']}"),
                    moment(run["time"]), question_text(run["question"]),
                    row["policy"], *figures_of(row),
                )
                for run in runs
                for row in run["result"]["rows"]
            ]  # fmt: skip
            names = (
                "",
                "Run",
                "When",
                "What is different",
                "Policy",
                *[name for _, name, _ in FIGURES],
            )
            table(names, rows, range(5, len(names)), "Kept runs")

    def _tick(self, run: Mapping[str, Any], is_first: bool) -> None:
        """Add the box that chooses a run, in its first row."""
        if not is_first:
            return
        number = int(run["number"])
        box = ui.element("input").props(f'type=checkbox aria-label="Choose run {number}"')
        box.props["checked"] = number in self._chosen
        box.on("change", lambda sent: self._choose(number, bool(sent.args)),
               js_handler="(e) => emit(e.target.checked)")  # fmt: skip

    def _choose(self, number: int, on: bool) -> None:
        (self._chosen.add if on else self._chosen.discard)(number)

    def _compare(self) -> None:
        if len(self._chosen) < 2:
            say("Choose two or more runs by the boxes at their left.")
            return
        numbers = ",".join(map(str, sorted(self._chosen)[:MOST_COMPARED]))
        ui.navigate.to(f"/whatif/compare?runs={numbers}")

    async def _forget(self) -> None:
        if not self._chosen:
            say("Choose runs by the boxes at their left.")
            return
        count = len(self._chosen)
        text = "Their figures are removed. This cannot be undone."
        if await question(f"Forget {count} run{'s' * (count != 1)}?", text, "Forget them"):
            for number in self._chosen:
                self._kept.remove(number)
            self._chosen.clear()
            self._show_kept()


def _progress_text(lines: Sequence[str], took_s: float) -> str:
    row = _last_row(lines)
    if "of" not in row:
        return f"reading the history, {duration_text(took_s)} ..."
    return f"{row['done']} of {row['of']} runs done, {duration_text(took_s)} ..."


def _last_row(lines: Sequence[str]) -> dict[str, Any]:
    for line in reversed(lines):
        try:
            row: dict[str, Any] = json.loads(line)
        except ValueError:
            continue
        return row
    return {}
