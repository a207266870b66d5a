"""Parts that views are made of: panels, tiles, tables, empty states, questions; and texts."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from nicegui import ui

from flyball.core.units import duration_text
from flyball.web.calls import Refused
from flyball.web.frame import Tag, tag

TIME = re.compile(r"\d{4}-\d\d-\d\d ")
"""Start of a moment, which is not broken into two lines."""
STATES = {
    "PENDING": ("schedule", "warn"),
    "RUNNING": ("play_circle", "run"),
    "COMPLETING": ("hourglass_bottom", "run"),
    "COMPLETED": ("check_circle", "good"),
    "CANCELLED": ("cancel", "soft"),
}
"""Icon and colour of a job's state; any other is a failure. The icon says it without the colour."""


@contextmanager
def panel(title: str, note: str = "", classes: str = "") -> Iterator[ui.element]:
    """Add a panel with a heading; its content is added within the context."""
    with ui.element("section").classes(f"fb-panel {classes}").props(f'aria-label="{title}"') as box:
        with ui.element("div").classes("head"):
            tag("h2", title)
            if note:
                tag("span", note, "note")
        yield box


@contextmanager
def empty(text: str) -> Iterator[None]:
    """Add an empty state: what is not there; what to do next is added within the context."""
    with ui.element("div").classes("fb-empty"):
        tag("strong", text)
        yield


def command(line: str) -> None:
    """Add a command line that can be copied."""
    with ui.element("div"):
        tag("code", line)


class Tile:
    """A figure with its name and a remark."""

    def __init__(self, name: str) -> None:
        with ui.element("div").classes("fb-tile") as self._box:
            tag("div", name, "name")
            self._value: Tag = tag("div", "-", "value")  # type: ignore[assignment]
            self._more: Tag = tag("div", " ", "more")  # type: ignore[assignment]

    def set(self, value: str, more: str = " ") -> None:
        """Show a figure."""
        self._value.set_text(value)
        self._more.set_text(more or " ")

    def explain(self, text: str) -> None:
        """Say how the figure was computed, where the pointer rests on it and to screen readers."""
        if self._box.props.get("title") != text:
            self._box.props["title"] = text
            self._box.update()


class Meter:
    """A bar that says how much of something is used, with the figures in words."""

    def __init__(self, name: str) -> None:
        with ui.element("div").classes("fb-meter"):
            tag("span", name, "name")
            self._box = ui.element("div").classes("bar").props("role=meter aria-valuemin=0")
            self._box.props(f'aria-valuemax=100 aria-label="{name}"')
            with self._box:
                self._bar = ui.element("div")
            self._text: Tag = tag("span", "")  # type: ignore[assignment]

    def set(self, text: str, part: float) -> None:
        """Show how much is used, as words and as a part of what there is."""
        percent = round(100 * min(1.0, max(0.0, part)))
        over = " (over it)" if part > 1 else ""
        self._text.set_text(f"{text}, {part:.0%}{over}")
        self._bar.style(f"width: {percent}%").classes(replace="over" if part > 1 else "")
        self._box.props(f'aria-valuenow={percent} aria-valuetext="{text}"')


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    numbers: Sequence[int] = (),
    label: str = "",
) -> ui.element:
    """Add a table. A cell is a text, or a function that adds something.

    Args:
        numbers: columns that are aligned to the right.
    """
    with ui.element("div").classes("fb-scroll").props('tabindex="0" role="region"') as box:
        box.props(f'aria-label="{label or "table"}"')
        with ui.element("table").classes("fb-table"):
            with ui.element("thead"), ui.element("tr"):
                for at, name in enumerate(columns):
                    tag("th", name, "num" if at in numbers else "").props("scope=col")
            with ui.element("tbody"):
                for row in rows:
                    with ui.element("tr"):
                        for at, cell in enumerate(row):
                            kind = "num" if at in numbers else ""
                            if callable(cell):
                                with ui.element("td").classes(kind):
                                    cell()
                            else:
                                is_time = TIME.match(str(cell))
                                tag("td", str(cell), f"{kind} time" if is_time else kind)
    return box


@contextmanager
def again(element: ui.element) -> Iterator[None]:
    """Empty an element and add to it again."""
    element.clear()
    with element:
        yield


def facts(rows: Mapping[str, Any]) -> None:
    """Add a list of names and values; empty values are left out."""
    with ui.element("dl").classes("fb-facts"):
        for name, value in rows.items():
            if value in (None, ""):
                continue
            tag("dt", name)
            if callable(value):
                with ui.element("dd"):
                    value()
            else:
                tag("dd", str(value))


def state_badge(state: str, text: str = "") -> None:
    """Add the state of a job as icon and word."""
    icon, colour = STATES.get(state, ("error", "bad"))
    with ui.element("span").classes(f"fb-state {colour}"):
        ui.icon(icon).props("aria-hidden=true")
        tag("span", text or state.lower().replace("_", " "))


def link(text: str, path: str) -> ui.element:
    """Add a link to a page. The path is ours, never a user's text."""
    return tag("a", text).props(f'href="{path}"')


def button(
    text: str,
    act: Callable[[], Any],
    icon: str = "",
    classes: str = "",
    refusal: str = "",
) -> ui.element:
    """Add a button.

    Args:
        refusal: why it is off; "" = it is on.
    """
    with ui.element("button").classes(f"fb-btn {classes}").props('type="button"') as element:
        if icon:
            ui.icon(icon).props("aria-hidden=true")
        tag("span", text)
    if refusal:
        element.props("disabled")
        element.props["title"] = refusal
        element.props["aria-description"] = refusal
    else:
        element.on("click", act)
    return element


async def question(title: str, text: str, yes: str) -> bool:
    """Ask before something that cannot be undone; return whether the answer is yes."""
    with ui.dialog() as dialog, ui.element("div").classes("fb-card").props("role=alertdialog"):
        tag("h2", title)
        tag("p", text)
        with ui.element("div").classes("fb-row"):
            button(yes, lambda: dialog.submit(True), classes="main")
            button("Keep it as it is", lambda: dialog.submit(False))
    answer = await dialog
    dialog.delete()
    return bool(answer)


async def ask_number(
    title: str, text: str, bounds: tuple[float, float, float], value: float
) -> float | None:
    """Ask for a number; None if the answer is to leave it.

    Args:
        bounds: least, most, and the step of the arrows.
        value: shown at first.
    """
    low, high, step = bounds
    chosen = {"value": float(value)}
    with ui.dialog() as dialog, ui.element("div").classes("fb-card").props("role=dialog") as card:
        card.props["aria-label"] = title
        tag("h2", title)
        with ui.element("label").classes("fb-field"):
            tag("span", text)
            box = ui.element("input").classes("fb-input")
            box.props(f"type=number name=number min={low:g} max={high:g} step={step:g}")
            box.props(f'value="{value:g}" autofocus')
            box.on("input", lambda sent: chosen.update(value=float(sent.args)),
                   js_handler="(e) => e.target.value && emit(Number(e.target.value))")  # fmt: skip
            box.on("keydown.enter", lambda: dialog.submit(True))
        with ui.element("div").classes("fb-row").style("margin-top: 12px"):
            button("Apply", lambda: dialog.submit(True), classes="main")
            button("Leave it", lambda: dialog.submit(False))
    applied = await dialog
    dialog.delete()
    return min(high, max(low, chosen["value"])) if applied else None


async def attempt(act: Callable[[], Awaitable[Any]], done: str = "") -> Any:
    """Do something by the API and say how it went; return the answer, None if it was refused."""
    try:
        answer = await act()
    except Refused as error:
        say(" - ".join(part for part in (error.detail, error.remedy) if part), bad=True)
        return None
    if done:
        say(done)
    return answer


def say(text: str, bad: bool = False) -> None:
    """Show a message for a while."""
    ui.notify(text, type="negative" if bad else "positive", position="bottom", timeout=6000)


# Texts ----------------------------------------------------------------------------------


def watts(value: float) -> str:
    """Return a power as people read it."""
    if value >= 1e6:
        return f"{value / 1e6:.2f} MW"
    return f"{value / 1e3:.1f} kW" if value >= 1e4 else f"{value:,.0f} W"


def ago(seconds: float | None) -> str:
    """Return a time as the span until now."""
    if not seconds:
        return ""
    span_s = time.time() - seconds
    return f"{duration_text(span_s)} ago" if span_s >= 0 else f"in {duration_text(-span_s)}"


def moment(seconds: float | None) -> str:
    """Return a time as date and time of day of this machine."""
    if not seconds:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
