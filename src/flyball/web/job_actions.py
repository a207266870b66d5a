"""The buttons of a job's page: each calls the API, and what destroys is asked about first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from flyball.web.frame import Page, tag
from flyball.web.parts import attempt, button, question


def add_actions(page: Page, job: Mapping[str, Any]) -> None:
    """Add the buttons for what can be done to a job now; one that is off says why."""
    number, calls = job["id"], page.calls
    ended = "" if job["state"] in ("PENDING", "RUNNING", "COMPLETING") else "the job has ended"
    running = "" if job["state"] == "RUNNING" else "only a running job"
    refusal = page.rights.refusal_for(str(job["user"]))
    ui.element("span").style("flex: 1")

    async def cancel() -> None:
        text = "If it runs it is stopped, and loses what it has not saved. This cannot be undone."
        if await question(f"Cancel job {job['label']}?", text, "Cancel the job"):
            await attempt(lambda: calls.delete(f"jobs/{number}"), "The job is being cancelled.")

    async def order(what: str, body: dict[str, Any], done: str) -> None:
        await attempt(lambda: calls.post(f"jobs/{number}/{what}", body), done)

    async def resize() -> None:
        low, high = job["elastic"] or (1, 1)
        devices = await _number("Resize the job", f"Devices, {low} to {high}", low, high, 1)
        if devices is not None:
            await order("resize", {"devices": round(devices)}, "It continues with the new size.")

    async def cap() -> None:
        percent = await _number("Cap the job", "Percent of its devices; 100 = no cap", 5, 100, 5)
        if percent is not None:
            await order("cap", {"share": percent / 100}, "The cap is set.")

    elastic = "" if job["elastic"] else "the job states no range of sizes (--elastic MIN-MAX)"
    waits = "" if job["state"] == "PENDING" else "only a waiting job"
    is_held = bool(job["held"])
    hold = _order(order, "release", "It may start.") if is_held else _order(order, "hold", "Held.")
    button("Release" if is_held else "Hold", hold, "pause", "", refusal or ended or waits)
    button("Resize", resize, "open_in_full", "", refusal or running or elastic)
    button("Cap", cap, "speed", "", refusal or running)
    save = _order(order, "checkpoint", "It saves a checkpoint between two of its steps.")
    button("Checkpoint", save, "save", "", refusal or running)
    button("Cancel", cancel, "cancel", "bad", refusal or ended)


def _order(
    order: Callable[[str, dict[str, Any], str], Awaitable[None]], what: str, done: str
) -> Callable[[], Awaitable[None]]:
    async def act() -> None:
        await order(what, {}, done)

    return act


async def _number(title: str, text: str, low: float, high: float, step: float) -> float | None:
    """Ask for a number; None if the answer is to leave it."""
    chosen = {"value": float(high)}
    with ui.dialog() as dialog, ui.element("div").classes("fb-card"):
        tag("h2", title)
        with ui.element("label").classes("fb-field"):
            tag("span", text)
            box = ui.element("input").classes("fb-input")
            box.props(f'type=number min={low:g} max={high:g} step={step:g} value="{high:g}"')
            box.on("input", lambda sent: chosen.update(value=float(sent.args or high)),
                   js_handler="(e) => emit(Number(e.target.value))")  # fmt: skip
        with ui.element("div").classes("fb-row").style("margin-top: 12px"):
            button("Apply", lambda: dialog.submit(True), classes="main")
            button("Leave it", lambda: dialog.submit(False))
    applied = await dialog
    dialog.delete()
    return chosen["value"] if applied else None
