"""The buttons of a job's page: each calls the API, and what destroys is asked about first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from nicegui import ui

from flyball.web.frame import Page
from flyball.web.parts import ask_number, attempt, button, question

PRIORITY_HELP = "Higher goes first; a job that states none has 0"
PRIORITIES = (-1e9, 1e9, 1)
CAP_HELP = "Percent of its devices; 100 = no cap"
CAP_RANGE = (5, 100, 5)


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
        devices = await ask_number(
            "Resize the job", f"Devices, {low} to {high}", (low, high, 1), high
        )
        if devices is not None:
            await order("resize", {"devices": round(devices)}, "It continues with the new size.")

    async def cap() -> None:
        percent = await ask_number("Cap the job", CAP_HELP, CAP_RANGE, 100)
        if percent is not None:
            await order("cap", {"share": percent / 100}, "The cap is set.")

    async def prioritise() -> None:
        value = await ask_number("Priority of the job", PRIORITY_HELP, PRIORITIES, job["priority"])
        if value is not None:
            await order("priority", {"priority": value}, f"The priority is {value:g}.")

    elastic = "" if job["elastic"] else "the job states no range of sizes (--elastic MIN-MAX)"
    waits = "" if job["state"] == "PENDING" else "only a waiting job"
    is_held = bool(job["held"])
    hold = _order(order, "release", "It may start.") if is_held else _order(order, "hold", "Held.")
    button("Release" if is_held else "Hold", hold, "pause", "", refusal or ended or waits)
    button("Priority", prioritise, "low_priority", "", refusal or ended)
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
