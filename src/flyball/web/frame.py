"""The frame of every page: navigation, search, state of the cluster, keys, light and dark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from nicegui import ui

from flyball import __version__
from flyball.web.calls import Calls
from flyball.web.feed import Feed, Picture
from flyball.web.rights import Rights, rights_of

VIEWS = (
    ("/now", "Now", "grid_view", "n"),
    ("/queue", "Queue", "view_list", "q"),
    ("/time", "Over time", "bar_chart", "t"),
    ("/decisions", "Decisions", "fact_check", "d"),
    ("/whatif", "What if", "alt_route", "w"),
    ("/prediction", "Prediction", "insights", "p"),
    ("/learning", "Learning", "school", "l"),
    ("/loop", "Loop", "sync", "o"),
    ("/system", "System", "monitor_heart", "s"),
)
"""Path, name, icon, and the key after `g` of each view."""
PATIENCE_S = 120.0
"""How long a page may take on a busy machine before the browser is told that it failed."""
THEMES = {"auto": None, "light": False, "dark": True}
HEAD = """<link rel="stylesheet" href="/static/flyball.css?v={version}">
<script defer src="/static/flyball.js?v={version}"></script>"""
KEYS = (
    ("/", "search"),
    ("j k", "next and previous job"),
    ("Enter", "open the job"),
    ("n", "submit a job"),
    ("g then n, q, t, d, w, p, l, o, s", "go to a view"),
    ("Esc", "leave a field or close a dialog"),
)


@dataclass
class Page:
    """A page that is being built.

    Attributes:
        api: the app of the API.
        feed: pictures of the cluster, shared by all viewers.
        calls: the API, with the session of this viewer.
        rights: what this viewer may do.
        request: the request of the page.
    """

    api: FastAPI
    feed: Feed
    calls: Calls
    rights: Rights
    request: Request
    _status: ui.label | None = None

    def every_second(self, show: Callable[[Picture], Awaitable[None] | None]) -> None:
        """Call a function with a new picture of the cluster every second."""

        async def tick() -> None:
            picture = await self.feed.picture()
            if self._status is not None:
                self._status.set_text(status_text(picture))
            shown = show(picture)
            if shown is not None:
                await shown

        ui.timer(1.0, tick)


def status_text(picture: Picture) -> str:
    """Return the state of the cluster in a line."""
    table = picture.devices
    return (
        f"{picture.running:,} running · {picture.pending:,} waiting · "
        f"{table.held:,} of {len(table.job):,} devices held"
    )


@contextmanager
def frame(api: FastAPI, feed: Feed, request: Request, title: str, path: str) -> Iterator[Page]:
    """Build the frame of a page; its content is added within the context.

    Args:
        title: heading of the page.
        path: of the view that is marked as current.
    """
    ui.page_title(f"{title} - Flyball")
    ui.add_head_html(HEAD.format(version=__version__))
    theme = request.cookies.get("flyball_theme", "auto")
    ui.dark_mode(THEMES.get(theme))
    page = Page(api, feed, Calls(api, request), rights_of(request), request)
    with ui.element("div").classes("fb"):
        tag("a", "Skip to the content", "fb-skip").props('href="#content"')
        with ui.element("nav").classes("fb-side").props('aria-label="Views"'):
            tag("div", "Flyball", "fb-brand")
            for link, name, icon, key in VIEWS:
                with (
                    ui.element("a").classes("nav").props(f'href="{link}" data-key="{key}"') as item
                ):
                    if link == path:
                        item.props("aria-current=page")
                    ui.icon(icon).props("aria-hidden=true")
                    ui.element("span").add_slot("default", f"<span>{name}</span>")
            with ui.element("div").classes("fb-who"):
                tag("div", page.rights.who)
                tag("div", page.rights.summary)
        with ui.element("main").classes("fb-main").props('id="content"'):
            with ui.element("div").classes("fb-top"):
                tag("h1", title)
                page._status = ui.label("").classes("fb-status").props('aria-live="off"')
                ui.element("div").classes("grow")
                _search()
                _theme_button(theme)
                _help_button()
            yield page


def tag(name: str, text: str = "", classes: str = "") -> ui.element:
    """Add an HTML element with text, which is shown as text whatever it contains."""
    element = Tag(name, text)
    return element.classes(classes) if classes else element


class Tag(ui.element):
    """An HTML element with text."""

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__(name)
        if text:
            self._text = text

    def set_text(self, text: str) -> None:
        """Show another text."""
        if text != self._text:
            self._text = text
            self.update()


def _search() -> None:
    box: Any = ui.element("input").classes("fb-search")
    box.props('type="search" placeholder="Search jobs  /" aria-label="Search jobs"')
    box.on("keydown.enter", js_handler="(e) => flyballSearch(e.target.value.trim())")


def _theme_button(theme: str) -> None:
    following = {"auto": "light", "light": "dark", "dark": "auto"}
    icons = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
    button = ui.element("button").classes("fb-btn")
    state = {"theme": theme if theme in THEMES else "auto"}
    with button:
        icon = ui.icon(icons[state["theme"]]).props("aria-hidden=true")

    def label() -> str:
        return f"Colours: {state['theme']}"

    def turn() -> None:
        state["theme"] = following[state["theme"]]
        icon.set_name(icons[state["theme"]])
        button.props(f'aria-label="{label()}" title="{label()}"')
        ui.run_javascript(f"flyballTheme('{state['theme']}')")

    button.props(f'type="button" aria-label="{label()}" title="{label()}"').on("click", turn)


def _help_button() -> None:
    with ui.dialog() as dialog, ui.element("div").classes("fb-card"):
        tag("h2", "Keys")
        with ui.element("table").classes("fb-table"), ui.element("tbody"):
            for keys, meaning in KEYS:
                with ui.element("tr"):
                    with ui.element("td"):
                        tag("kbd", keys)
                    tag("td", meaning)
    with ui.element("button").classes("fb-btn") as button:
        ui.icon("keyboard").props("aria-hidden=true")
    button.props('type="button" aria-label="Keys" title="Keys  ?" data-key-help').on(
        "click", dialog.open
    )
